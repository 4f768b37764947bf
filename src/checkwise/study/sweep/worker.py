"""What the training of a run prints goes to a file, which is made with the first line."""

from __future__ import annotations

import io
import random
import socket
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Literal, TypeAlias

from checkwise.errors import CheckwiseError, InputError
from checkwise.plugins import check_loaded, load_plugin
from checkwise.records import RunKey
from checkwise.store import (
    ATTEMPTS_FOLDER,
    Saved,
    StoreError,
    attempts_at,
    attempts_folder,
    clear,
    continue_run,
    furthest,
    has_file,
    names,
    published,
    writing,
)
from checkwise.study.folder import (
    RETRIES,
    STALE_SECONDS,
    Failure,
    Holder,
    Lease,
    LeaseLostError,
    holder,
    open_cohort,
    read_failures,
    take,
    tries,
    write_failure,
)
from checkwise.study.sweep.datasets import open_spec
from checkwise.study.sweep.planning import run_config
from checkwise.study.sweep.process import run_job
from checkwise.study.sweep.study import Study
from checkwise.study.train import (
    RESUME_SECONDS,
    RunConfig,
    TrainingData,
    builds_on,
    load,
    prepare,
    train_run,
)


@contextmanager
def printed_to(path: Path) -> Iterator[None]:
    """Add everything that Python code prints inside the block to the end of a file."""
    log = _Log(path)
    with log, redirect_stdout(log), redirect_stderr(log):
        yield


class _Log(io.TextIOBase):
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self._file is None:
            self._file = self._path.open("a", encoding="utf-8", errors="backslashreplace")
        self._file.write(text)
        self._file.flush()
        return len(text)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        super().close()


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
    lease = take(attempts_folder(run), takeover=limits.takeover)
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
    log = attempts_folder(run) / f"{lease.token}.log"
    if _failed_too_often(run, training, lease.before, limits):
        return "failed"
    try:
        with writing(attempts_folder(run)), printed_to(log):
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
            log=log if has_file(attempts_folder(run), log) else "",
            updates=updates,
            lost=failed <= limits.retries,
        )
        write_failure(run, before.token, failure)
    return failed > limits.retries


def _note(run: Path, training: _Training, lease: Lease, limits: Limits, error: Exception) -> None:
    log = attempts_folder(run) / f"{lease.token}.log"
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
        source = furthest(attempts_at(attempts_folder(run)), training)
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
        state = load(folder)
        return None if state is None else builds_on(state, self._config())

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


POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Job:
    """What every worker of a sweep needs to know, in plain values that JSON can carry.

    ``round`` is drawn for every sweep: a run that failed ``1 + retries`` times in this round is
    left alone. A run whose worker shows no sign of life for ``takeover`` seconds is taken over.
    With ``wait`` a worker stays until the runs of other workers are done, to take over if one dies.
    A worker first loads ``plugins``, which maps their sources to the SHA-256 of their files.
    """

    cohort: str
    round: str
    roots: Mapping[str, str] = field(default_factory=dict)
    resume_seconds: float = RESUME_SECONDS
    wait: bool = True
    plugins: Mapping[str, str] = field(default_factory=dict)
    takeover: float = STALE_SECONDS
    retries: int = RETRIES


@dataclass(frozen=True)
class Worked:
    """What a worker did: runs that it finished, runs that it left because they failed too often."""

    trained: int
    failed: int


def work(job: Job, *, stop: Callable[[], bool] = lambda: False) -> Worked:
    """Train the runs of a cohort that are neither finished nor held by another worker.

    Safe to call any number of times, from any number of processes. A run that fails is tried again,
    ``job.retries`` times, and its reasons are kept beside its attempts. A full disk, a read-only
    folder (``StoreError``) or unreadable data end the worker.
    """
    for source, sha256 in job.plugins.items():
        load_plugin(source, sha256=sha256)
    cohort = open_cohort(job.cohort)
    study = Study.from_dict(cohort.study)
    check_loaded(study.plugins, job.cohort)
    data = _Data(study, job.roots)
    limits = Limits(job.round, job.takeover, job.retries, job.resume_seconds)
    trained = failed = 0
    begun = names(cohort.path / ATTEMPTS_FOLDER) or ()
    open_runs = _in_own_order(cohort.runs, frozenset(begun))
    while open_runs and not stop():
        again = []
        idle = True
        for key, run in open_runs:
            if stop():
                break
            ending = try_run(run, key, study, partial(data.of, key.dataset), limits, stop)
            trained += ending == "trained"
            failed += ending == "failed"
            idle &= ending == "held"
            if ending in ("held", "open"):
                again.append((key, run))
        open_runs = again
        if idle and not job.wait:
            break
        if idle and open_runs:
            time.sleep(POLL_SECONDS)
    return Worked(trained, failed)


def _in_own_order(runs: Mapping[RunKey, Path], begun: frozenset[str]) -> list[tuple[RunKey, Path]]:
    """Runs by data set; within a data set those that were begun, and a random one first.

    Workers with a short time limit would otherwise begin every run before they finish any.
    """
    order = list(runs.items())
    start = random.randrange(len(order)) if order else 0
    turned = order[start:] + order[:start]
    datasets = list(dict.fromkeys(key.dataset for key in runs))
    places = {name: place for place, name in enumerate(datasets)}
    return sorted(turned, key=lambda entry: (places[entry[0].dataset], entry[1].name not in begun))


class _Data:
    """The data set of the current runs, prepared once."""

    def __init__(self, study: Study, roots: Mapping[str, str]) -> None:
        self._study = study
        self._roots = roots
        self._name = ""
        self._ready: TrainingData | None = None

    def of(self, name: str) -> TrainingData:
        if self._ready is None or name != self._name:
            spec = next(spec for spec in self._study.data if spec.name == name)
            self._ready = None  # let go of the last one before the next is read
            self._ready = prepare(
                open_spec(spec, self._roots), self._study.network, augmented=self._study.augment
            )
            self._name = name
        return self._ready


if __name__ == "__main__":
    run_job(Job, work)
