"""The caches of a study, prepared where its workers run: features are extracted by its GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from checkwise.errors import CheckwiseError
from checkwise.plugins import Plugin, load_plugin
from checkwise.study.data import Progress
from checkwise.study.folder import CohortRecord, open_cohort
from checkwise.study.sweep.datasets import kind_of
from checkwise.study.sweep.executors import LocalExecutor
from checkwise.study.sweep.launching import Executor, run_workers
from checkwise.study.sweep.process import run_job
from checkwise.study.sweep.run import prepare_caches
from checkwise.study.sweep.study import Study


@dataclass(frozen=True)
class PrepareJob:
    """What the worker needs to know."""

    cohort: str
    roots: Mapping[str, str] = field(default_factory=dict)
    plugins: Mapping[str, str] = field(default_factory=dict)


def work(job: PrepareJob, *, stop: Callable[[], bool] = lambda: False) -> None:
    """Prepare the caches; what a killed worker has extracted is used again."""
    for source, sha256 in job.plugins.items():
        load_plugin(source, sha256=sha256)
    prepare_caches(Study.from_dict(open_cohort(job.cohort).study), job.roots)


def prepare_with(
    executor: Executor,
    cohort: CohortRecord,
    study: Study,
    roots: Mapping[str, str],
    *,
    plugins: Sequence[Plugin] = (),
    progress: Progress | None = None,
) -> None:
    """Prepare the caches in this process if workers run on this machine, else with a worker.

    Raises:
        CheckwiseError: the worker's error.
    """
    if isinstance(executor, LocalExecutor):
        prepare_caches(study, roots, progress=progress)
    elif _has_caches(study):
        job = PrepareJob(
            cohort=str(cohort.path.absolute()),
            roots=dict(roots),
            plugins={plugin.source: plugin.sha256 for plugin in plugins},
        )
        ended = run_workers(executor, job, 1)
        if ended.interrupted:
            raise KeyboardInterrupt(ended.interrupted)
        if ended.failures:
            raise CheckwiseError(ended.failures[0])


def _has_caches(study: Study) -> bool:
    """Whether anything of the study is decoded or extracted before it is trained."""
    frozen = study.network.kind == "backbone" and study.network.tune != "all"
    return frozen or any(kind_of(spec) == "images" for spec in study.data)


if __name__ == "__main__":
    run_job(PrepareJob, work)
