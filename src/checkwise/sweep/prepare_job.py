"""The caches of a study, prepared by a worker: features are extracted where the GPUs are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from checkwise.plugins import load_plugin
from checkwise.store.cohort import open_cohort
from checkwise.sweep.datasets import kind_of
from checkwise.sweep.process import run_job
from checkwise.sweep.run import prepare_caches
from checkwise.sweep.study import Study


@dataclass(frozen=True)
class PrepareJob:
    """What the worker needs to know."""

    cohort: str
    roots: Mapping[str, str] = field(default_factory=dict)
    plugins: Mapping[str, str] = field(default_factory=dict)


def has_caches(study: Study) -> bool:
    """Whether anything of the study is decoded or extracted before it is trained."""
    frozen = study.network.kind == "backbone" and study.network.tune != "all"
    return frozen or any(kind_of(spec) == "images" for spec in study.data)


def work(job: PrepareJob, *, stop: Callable[[], bool] = lambda: False) -> None:
    """Prepare the caches; what a killed worker has extracted is used again."""
    for source, sha256 in job.plugins.items():
        load_plugin(source, sha256=sha256)
    prepare_caches(Study.from_dict(open_cohort(job.cohort).study), job.roots)


if __name__ == "__main__":
    run_job(PrepareJob, work)
