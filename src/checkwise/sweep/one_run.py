"""One try at one run by one worker: take it, train it, publish it, or keep the reason why not."""

from __future__ import annotations

import socket
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from checkwise.errors import CheckwiseError, InputError
from checkwise.records import RunKey
from checkwise.store import disk
from checkwise.store.atomic_write import StoreError, writing
from checkwise.store.attempts import (
    Saved,
    attempts_at,
    clear,
    continue_run,
    furthest,
    place_of,
    published,
)
from checkwise.store.failures import Failure, read_failures, tries, write_failure
from checkwise.store.lease import Holder, Lease, LeaseLostError, holder, take
from checkwise.sweep.plan import run_config
from checkwise.sweep.printed import printed_to
from checkwise.sweep.study import Study
from checkwise.train import resume
from checkwise.train.build import TrainingData
from checkwise.train.config import RunConfig
from checkwise.train.loop import train_run

# "open": not finished, and free to be taken again.
Ending: TypeAlias = Literal["published", "trained", "held", "open", "failed"]


@dataclass(frozen=True)
class Limits:
    """When a run is taken over, how often it is tried, and how often its state is saved.

    Failures count within one ``round``.
    """

    round: str
    takeover: float
    retries: int
    resume_seconds: float


def try_run(
    run: Path,
    key: RunKey,
    study: Study,
    data: Callable[[], TrainingData],
    limits: Limits,
    stop: Callable[[], bool],
) -> Ending:
    """Train a run unless it is finished, held by another worker, or failed too often.

    Raises:
        StoreError: the cohort cannot be written.
        CheckwiseError: ``data`` cannot be opened.
    """
    if published(run):
        return "published"
    lease = take(place_of(run), takeover=limits.takeover)
    if lease is None:
        return "held"
    with lease:
        if published(run):
            ending: Ending = "published"
        elif holder(run) is not None:  # a worker of an older version of checkwise
            ending = "held"
        else:
            training = _Training(study, key, data(), lease, limits.resume_seconds, stop)
            ending = _train(run, training, lease, limits)
        if ending in ("published", "trained"):
            clear(run)
    return ending


def _train(run: Path, training: _Training, lease: Lease, limits: Limits) -> Ending:
    log = place_of(run) / f"{lease.token}.log"
    if _failed_too_often(run, training, lease.before, limits):
        return "failed"
    try:
        with writing(place_of(run)), printed_to(log):
            return "trained" if continue_run(run, training) else "open"
    except LeaseLostError:
        return "held"
    except StoreError as error:
        # The worker that took this run over has removed this attempt.
        if lease.held() and not isinstance(error.__cause__, FileNotFoundError):
            raise
        return "held"
    except Exception as error:
        if not lease.held():
            return "held"
        _note(run, training, lease, limits, error)
    return "open"


def _failed_too_often(
    run: Path, training: _Training, before: Holder | None, limits: Limits
) -> bool:
    """Whether every try that a run has is used up; a worker lost before this one counts too."""
    failures = read_failures(run)
    if not failures and before is None:
        return False
    updates = _updates(run, training)
    failed = tries(failures, limits.round, updates)
    if before is not None:
        failed += 1
        reason = (
            f"Its worker, process {before.pid} on {before.host}, ended or fell silent without a "
            "word: killed, out of memory, or a crash."
        )
        log = f"{before.token}.log"
        failure = Failure(
            round=limits.round,
            number=len(failures) + 1,
            host=before.host,
            reason=reason,
            log=log if disk.has_file(place_of(run), log) else "",
            updates=updates,
            lost=failed <= limits.retries,
        )
        write_failure(run, before.token, failure)
    return failed > limits.retries


def _note(run: Path, training: _Training, lease: Lease, limits: Limits, error: Exception) -> None:
    log = place_of(run) / f"{lease.token}.log"
    reason = " ".join(str(error).split())
    if not isinstance(error, CheckwiseError):
        reason = f"{type(error).__name__}: {reason}"
        with printed_to(log):
            traceback.print_exception(error)
    failure = Failure(
        round=limits.round,
        number=len(read_failures(run)) + 1,
        host=socket.gethostname(),
        reason=reason,
        log=log.name if log.is_file() else "",
        updates=_updates(run, training),
    )
    with writing(log.parent):
        write_failure(run, lease.token, failure)


def _updates(run: Path, training: _Training) -> int:
    """How far the furthest saved state of a run is."""
    try:
        source = furthest(attempts_at(place_of(run)), training)
        saved = None if source is None else training.saved(source)
    except (InputError, OSError):
        return 0
    return 0 if saved is None else saved.updates


class _Training:
    """Trains one run in the folders of attempts."""

    def __init__(
        self,
        study: Study,
        key: RunKey,
        data: TrainingData,
        lease: Lease,
        resume_seconds: float,
        stop: Callable[[], bool],
    ) -> None:
        self._study = study
        self._key = key
        self._data = data
        self._lease = lease
        self._resume_seconds = resume_seconds
        self._stop = stop

    def saved(self, folder: Path) -> Saved | None:
        state = resume.load(folder)
        return None if state is None else resume.builds_on(state, self._config())

    def train(self, folder: Path) -> bool:
        ending = train_run(
            folder,
            self._config(),
            self._data,
            self._lease,
            stop=self._stop,
            resume_seconds=self._resume_seconds,
        )
        return ending == "finished"

    def _config(self) -> RunConfig:
        return run_config(self._study, self._key, self._data)
