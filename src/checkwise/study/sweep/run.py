"""Checks of a sweep before it plans or trains anything; a dry run makes the same checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from checkwise import metrics
from checkwise.errors import CheckwiseError, InputError
from checkwise.plugins import Plugin
from checkwise.store import clear_published
from checkwise.study.data import (
    DomainDataset,
    Progress,
    check_sources,
    source_splits,
    split,
    target_rows,
)
from checkwise.study.folder import RETRIES, STALE_SECONDS, CohortRecord
from checkwise.study.sweep.datasets import check_held_out, image_domains, kind_of, open_spec
from checkwise.study.sweep.executors import get_executor
from checkwise.study.sweep.launching import Ended, Executor, ExecutorSettings, run_workers
from checkwise.study.sweep.planning import begin_round, check_place
from checkwise.study.sweep.progress import RunStatus, Watched, cohort_status
from checkwise.study.sweep.study import DataSpec, Study
from checkwise.study.sweep.worker import Job
from checkwise.study.train import (
    RESUME_SECONDS,
    backbone_named,
    check_kind,
    default_device,
    freeze,
    frozen_part,
)


def check_sweep(
    study: Study,
    roots: Mapping[str, str],
    *,
    settings: ExecutorSettings,
    out: Path | None,
    absent: tuple[str, ...] = (),
) -> Executor:
    """Make every check that needs no training, and return the executor.

    ``absent`` names data sets that were not found: only their kind is checked.
    """
    launcher = get_executor(settings)
    for spec in study.data:
        check_kind(study.network, kind_of(spec), spec.name)
        if spec.name not in absent:
            _check_domains(study, spec, roots)
    if study.network.kind == "backbone":
        frozen_part(backbone_named(study.network.backbone), study.network.tune)
    if out is not None:
        check_place(study, out)
    return launcher


def _check_domains(study: Study, spec: DataSpec, roots: Mapping[str, str]) -> None:
    if kind_of(spec) != "images":
        _check_splits(study, spec, open_spec(spec, roots))
        return
    sizes = image_domains(spec, roots)
    domains = tuple(sizes)
    check_held_out(spec, domains)
    for names in spec.held_out or [(domain,) for domain in domains]:
        check_sources(names, sorted({*domains} - {*names}), spec.name)
    for index, (domain, size) in enumerate(sizes.items()):
        try:
            split(size, domain_index=index, trial_seed=0, holdout=study.holdout)
        except InputError as error:
            raise InputError(
                f"{error} (domain {domain!r} of {spec.name})", code=error.code
            ) from None


def _check_splits(study: Study, spec: DataSpec, dataset: DomainDataset) -> None:
    """Split as some run would: what is too small, or lacks groups, shows."""
    check_held_out(spec, dataset.targets)
    for names in spec.held_out or [(name,) for name in dataset.targets]:
        source_splits(dataset, names, split_by=study.split_by, trial_seed=0, holdout=study.holdout)
        for name in names:
            target_rows(dataset, name, trial_seed=0, holdout=study.holdout)


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
