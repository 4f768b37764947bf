"""A worker: trains the planned runs that no other worker trains."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from checkwise.plugins import check_loaded, load_plugin
from checkwise.records import RunKey
from checkwise.store import disk, layout
from checkwise.store.cohort import open_cohort
from checkwise.store.failures import RETRIES
from checkwise.store.lease import STALE_SECONDS
from checkwise.sweep.datasets import open_spec
from checkwise.sweep.one_run import Limits, try_run
from checkwise.sweep.process import run_job
from checkwise.sweep.study import Study
from checkwise.train.build import TrainingData, prepare
from checkwise.train.loop import RESUME_SECONDS

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
    begun = disk.names(cohort.path / layout.ATTEMPTS) or ()
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
