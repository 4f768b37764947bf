"""Trains the runs of a cohort: any number of workers may do so at once, anywhere."""

from __future__ import annotations

import random
import socket
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

from checkwise.errors import CheckwiseError, InputError
from checkwise.plugins import check_loaded, load_plugin
from checkwise.records import RunKey
from checkwise.store import ATTEMPTS_FOLDER, StoreError, attempts_folder, has_file, writing
from checkwise.study.data import Progress
from checkwise.study.folder import (
    RETRIES,
    STALE_SECONDS,
    Failure,
    Lease,
    Saved,
    attempts_at,
    clear,
    continue_run,
    furthest,
    names,
    open_cohort,
    published,
    read_failures,
    take,
    tries,
    write_failure,
)
from checkwise.study.sweep.launching import run_job
from checkwise.study.sweep.planning import open_spec, run_config
from checkwise.study.sweep.study import Study
from checkwise.study.train import (
    RESUME_SECONDS,
    RunConfig,
    TrainingData,
    builds_on,
    default_device,
    freeze,
    load,
    prepare,
    train_run,
)

POLL_SECONDS = 1.0
# "open": not finished, and free to be taken again.
Ending: TypeAlias = Literal["published", "trained", "held", "open", "failed"]


@dataclass(frozen=True)
class Job:
    """What every worker of a sweep needs to know, in plain values that JSON can carry.

    ``round`` is drawn for every sweep: a run that failed ``1 + retries`` times in this round is
    left alone. A run whose worker shows no sign of life for ``takeover`` seconds is taken over.
    With ``wait`` a worker stays until the runs of other workers are done, to take over if one dies.
    A worker first loads ``plugins``, which maps their sources to the SHA-256 of their files. With
    ``only_prepare`` it makes the caches that the others will read, and trains nothing.
    """

    cohort: str
    round: str
    roots: Mapping[str, str] = field(default_factory=dict)
    resume_seconds: float = RESUME_SECONDS
    wait: bool = True
    plugins: Mapping[str, str] = field(default_factory=dict)
    takeover: float = STALE_SECONDS
    retries: int = RETRIES
    only_prepare: bool = False


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
    if job.only_prepare:
        prepare_caches(study, job.roots)
        return Worked(0, 0)
    worker = _Worker(job, study, stop)
    endings: list[Ending] = []
    begun = names(cohort.path / ATTEMPTS_FOLDER) or ()
    open_runs = _in_own_order(cohort.runs, frozenset(begun))
    while open_runs and not stop():
        again = []
        idle = True
        for key, run in open_runs:
            if stop():
                break
            endings.append(worker.try_run(run, key))
            idle &= endings[-1] == "held"
            if endings[-1] in ("held", "open"):
                again.append((key, run))
        open_runs = again
        if idle and not job.wait:
            break
        if idle and open_runs:
            time.sleep(POLL_SECONDS)
    return Worked(endings.count("trained"), endings.count("failed"))


def prepare_caches(
    study: Study, roots: Mapping[str, str], *, progress: Progress | None = None
) -> None:
    """Open every data set and run its frozen part once, so that workers find them cached."""
    for spec in study.data:
        dataset = open_spec(spec, roots, progress=progress)
        for name in (name for held_out in spec.held_out or () for name in held_out):
            dataset.target_index(name)
        freeze(dataset, study.network, device=default_device(), progress=progress)


def _in_own_order(runs: Mapping[RunKey, Path], begun: frozenset[str]) -> list[tuple[RunKey, Path]]:
    """Runs by data set; within a data set those that were begun, and a random one first.

    Workers with a short time limit would otherwise begin every run before they finish any.
    """
    order = list(runs.items())
    start = random.randrange(len(order)) if order else 0
    turned = order[start:] + order[:start]
    datasets = list(dict.fromkeys(key.dataset for key in runs))
    return sorted(turned, key=lambda e: (datasets.index(e[0].dataset), e[1].name not in begun))


class _Worker:
    """Tries runs one after the other; the data set of the current runs is prepared once."""

    def __init__(self, job: Job, study: Study, stop: Callable[[], bool]) -> None:
        self.job = job
        self.study = study
        self.stop = stop
        self._prepared: dict[str, TrainingData] = {}

    def data_of(self, name: str) -> TrainingData:
        if name not in self._prepared:
            spec = next(spec for spec in self.study.data if spec.name == name)
            self._prepared.clear()  # let go of the last one before the next is read
            opened = open_spec(spec, self.job.roots)
            self._prepared[name] = prepare(opened, self.study.network, augmented=self.study.augment)
        return self._prepared[name]

    def try_run(self, run: Path, key: RunKey) -> Ending:
        if published(run):
            return "published"
        lease = take(attempts_folder(run), takeover=self.job.takeover)
        if lease is None:
            return "held"
        with lease:
            ending: Ending = "published"
            if not published(run):
                ending = _Try(self, run, key, lease).made()
            if ending in ("published", "trained"):
                clear(run)
            return ending


class _Try:
    """One try at a run that this worker holds: the ``Training`` of ``continue_run``."""

    def __init__(self, worker: _Worker, run: Path, key: RunKey, lease: Lease) -> None:
        self._worker = worker
        self._run = run
        self._place = attempts_folder(run)
        self._lease = lease
        self._key = key
        self._data = worker.data_of(key.dataset)

    @cached_property
    def _config(self) -> RunConfig:
        return run_config(self._worker.study, self._key, self._data)

    def made(self) -> Ending:
        if self._failed_too_often():
            return "failed"
        log = self._place / f"{self._lease.token}.log"
        try:
            with writing(self._place), _printed_to(log):
                return "trained" if continue_run(self._run, self) else "open"
        except Exception as error:
            # A worker that took this run over has removed this attempt.
            removed = isinstance(error, StoreError) and isinstance(
                error.__cause__, FileNotFoundError
            )
            if removed or not self._lease.held():
                return "held"
            if isinstance(error, StoreError):
                raise
            reason = " ".join(str(error).split())
            if not isinstance(error, CheckwiseError):
                reason = f"{type(error).__name__}: {reason}"
                with _printed_to(log):
                    traceback.print_exception(error)
            with writing(self._place):
                self._note(self._lease.token, socket.gethostname(), reason)
        return "open"

    def saved(self, folder: Path) -> Saved | None:
        state = load(folder)
        return None if state is None else builds_on(state, self._config)

    def train(self, folder: Path) -> bool:
        stop, seconds = self._worker.stop, self._worker.job.resume_seconds
        ending = train_run(folder, self._config, self._data, stop=stop, resume_seconds=seconds)
        return ending == "finished"

    def _failed_too_often(self) -> bool:
        """Whether every try that a run has is used up; a worker lost before this one counts too."""
        job, before = self._worker.job, self._lease.before
        failures = read_failures(self._run)
        if not failures and before is None:
            return False
        failed = tries(failures, job.round, self._updates()) + (before is not None)
        if before is not None:
            reason = (
                f"Its worker, process {before.pid} on {before.host}, ended or fell silent without "
                "a word: killed, out of memory, or a crash."
            )
            self._note(before.token, before.host, reason, lost=failed <= job.retries)
        return failed > job.retries

    def _note(self, token: str, host: str, reason: str, *, lost: bool = False) -> None:
        log = f"{token}.log"
        failure = Failure(
            round=self._worker.job.round,
            number=len(read_failures(self._run)) + 1,
            host=host,
            reason=reason,
            log=log if has_file(self._place, log) else "",
            updates=self._updates(),
            lost=lost,
        )
        write_failure(self._run, token, failure)

    def _updates(self) -> int:
        try:
            source = furthest(attempts_at(self._place), self)
            saved = None if source is None else self.saved(source)
        except (InputError, OSError):
            return 0
        return 0 if saved is None else saved.updates


@contextmanager
def _printed_to(path: Path) -> Iterator[None]:
    """Add everything that Python code prints inside the block to the end of a file."""
    try:
        with (
            path.open("a", buffering=1, encoding="utf-8", errors="backslashreplace") as log,
            redirect_stdout(log),
            redirect_stderr(log),
        ):
            yield
    finally:
        with suppress(OSError):
            if not path.stat().st_size:
                path.unlink()


if __name__ == "__main__":
    run_job(Job, work)
