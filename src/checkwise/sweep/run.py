"""Runs a sweep from start to end: prepares the data once, launches workers, watches them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from checkwise import metrics
from checkwise.data.manifest import Progress
from checkwise.errors import CheckwiseError
from checkwise.plugins import Plugin
from checkwise.store.attempts import clear_published
from checkwise.store.cohort import CohortRecord
from checkwise.store.failures import RETRIES
from checkwise.store.lease import STALE_SECONDS
from checkwise.sweep.datasets import open_spec
from checkwise.sweep.executors.base import Executor
from checkwise.sweep.executors.watch import Ended, run_workers
from checkwise.sweep.plan import begin_round
from checkwise.sweep.status import RunStatus, Watched, cohort_status
from checkwise.sweep.study import Study
from checkwise.sweep.worker import Job
from checkwise.train.build import default_device
from checkwise.train.loop import RESUME_SECONDS
from checkwise.train.networks.extract import freeze


@dataclass(frozen=True)
class SweepResult:
    """How a sweep ended, and the signal that stopped it, or 0."""

    runs: tuple[RunStatus, ...]
    interrupted: int

    def count(self, *states: str) -> int:
        """How many runs are in one of the states."""
        return sum(run.state in states for run in self.runs)


def prepare_caches(
    study: Study, roots: Mapping[str, str], *, progress: Progress | None = None
) -> None:
    """Open every data set and run its frozen part once, so that workers find them cached."""
    for spec in study.data:
        dataset = open_spec(spec, roots, progress=progress)
        for name in (name for names in spec.held_out or () for name in names):
            dataset.target_index(name)
        freeze(dataset, study.network, device=default_device(), progress=progress)
    # Compiles the kernels here, instead of in every worker at once.
    metrics.evaluate(logits=np.zeros((2, 2), np.float32), labels=np.array([0, 1]))


def run_sweep(
    cohort: CohortRecord,
    executor: Executor,
    *,
    workers: int,
    roots: Mapping[str, str],
    resume_seconds: float = RESUME_SECONDS,
    takeover: float = STALE_SECONDS,
    retries: int = RETRIES,
    plugins: Sequence[Plugin] = (),
    watch: Callable[[Sequence[RunStatus]], None] = lambda runs: None,
) -> SweepResult:
    """Train the runs that are not finished; ``watch`` is called about twice a second.

    Workers load ``plugins`` before they train. SIGINT and SIGTERM ask the workers to save their
    state and end.

    Raises:
        CheckwiseError: the first worker's error, if runs are left that no worker could train (a
            full disk, unreadable data).
    """
    open_runs = [run for run in cohort_status(cohort) if run.state != "finished"]
    ended = Ended((), interrupted=0)
    if open_runs:
        job = Job(
            cohort=str(cohort.path.absolute()),
            round=begin_round(cohort.path, roots),
            roots=dict(roots),
            resume_seconds=resume_seconds,
            plugins={plugin.source: plugin.sha256 for plugin in plugins},
            takeover=takeover,
            retries=retries,
        )
        watched = Watched(cohort)
        count = min(workers, len(open_runs))
        ended = run_workers(executor, job, count, watch=lambda: watch(watched.look()))
        clear_published(cohort.path)
    result = SweepResult(tuple(cohort_status(cohort)), ended.interrupted)
    # Another worker may have trained the runs of one that died: only unfinished runs count.
    left = result.count("finished", "failed") < len(result.runs)
    if ended.failures and not ended.interrupted and left:
        raise CheckwiseError(ended.failures[0])
    return result
