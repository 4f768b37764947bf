"""Checks of a sweep before it plans or trains anything; a dry run makes the same checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkwise.errors import CheckwiseError, InputError
from checkwise.plugins import Plugin
from checkwise.study.data import (
    Progress,
    check_sources,
    source_splits,
    split,
    target_rows,
)
from checkwise.study.folder import RETRIES, STALE_SECONDS, CohortRecord, clear_published
from checkwise.study.sweep.executors import LocalExecutor, get_executor
from checkwise.study.sweep.launching import Ended, Executor, ExecutorSettings, run_workers
from checkwise.study.sweep.planning import (
    begin_round,
    check_held_out,
    check_place,
    image_domains,
    kind_of,
    open_spec,
)
from checkwise.study.sweep.progress import RunStatus, Watched, cohort_status
from checkwise.study.sweep.study import DataSpec, Study
from checkwise.study.sweep.worker import Job, prepare_caches
from checkwise.study.train import (
    RESUME_SECONDS,
    backbone_named,
    check_kind,
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
            _check_splits(study, spec, roots)
    if study.network.kind == "backbone":
        frozen_part(backbone_named(study.network.backbone), study.network.tune)
    if out is not None:
        check_place(study, out)
    return launcher


def _check_splits(study: Study, spec: DataSpec, roots: Mapping[str, str]) -> None:
    """Split as some run would: what is too small, or lacks groups, shows. No image is read."""
    seeds: dict[str, Any] = {"trial_seed": 0, "holdout": study.holdout}
    if kind_of(spec) == "images":
        sizes = image_domains(spec, roots)
        check_held_out(spec, tuple(sizes))
        for names in spec.held_out or [(domain,) for domain in sizes]:
            check_sources(names, sorted({*sizes} - {*names}), spec.name)
        for index, (domain, size) in enumerate(sizes.items()):
            try:
                split(size, domain_index=index, **seeds)
            except InputError as error:
                where = f"domain {domain!r} of {spec.name}"
                raise InputError(f"{error} ({where})", code=error.code) from None
        return
    dataset = open_spec(spec, roots)
    check_held_out(spec, dataset.targets)
    for names in spec.held_out or [(name,) for name in dataset.targets]:
        source_splits(dataset, names, split_by=study.split_by, **seeds)
        for name in names:
            target_rows(dataset, name, **seeds)


@dataclass(frozen=True)
class SweepResult:
    """How a sweep ended, and the signal that stopped it, or 0."""

    runs: tuple[RunStatus, ...]
    interrupted: int

    def count(self, *states: str) -> int:
        return sum(run.state in states for run in self.runs)


def prepare_with(
    executor: Executor,
    cohort: CohortRecord,
    study: Study,
    roots: Mapping[str, str],
    *,
    plugins: Sequence[Plugin] = (),
    progress: Progress | None = None,
) -> None:
    """Prepare the caches here if workers run on this machine, else with one worker, on its GPU."""
    if isinstance(executor, LocalExecutor):
        prepare_caches(study, roots, progress=progress)
        return
    frozen = study.network.kind == "backbone" and study.network.tune != "all"
    if frozen or any(kind_of(spec) == "images" for spec in study.data):
        ended = run_workers(executor, _job(cohort, "", roots, plugins, only_prepare=True), 1)
        if ended.interrupted:
            raise KeyboardInterrupt(ended.interrupted)
        if ended.failures:
            raise CheckwiseError(ended.failures[0])


def _job(
    cohort: CohortRecord,
    round_: str,
    roots: Mapping[str, str],
    plugins: Sequence[Plugin],
    **limits: Any,
) -> Job:
    sources = {plugin.source: plugin.sha256 for plugin in plugins}
    return Job(str(cohort.path.absolute()), round_, dict(roots), plugins=sources, **limits)


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
    """
    open_runs = [run for run in cohort_status(cohort) if run.state != "finished"]
    ended = Ended()
    if open_runs:
        limits = {"resume_seconds": resume_seconds, "takeover": takeover, "retries": retries}
        job = _job(cohort, begin_round(cohort.path, roots), roots, plugins, **limits)
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
