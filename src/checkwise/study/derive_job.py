"""Models of a method, made by workers: each takes groups of runs that no other works on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from checkwise.errors import CheckwiseError
from checkwise.plugins import load_plugin
from checkwise.store import writing
from checkwise.study.baselines import DeriveResult, OpenRuns, derive, forget
from checkwise.study.folder import take
from checkwise.study.method_table import recipe_of
from checkwise.study.sweep import Executor, run_job, run_workers

POLL_SECONDS = 1.0


@dataclass(frozen=True)
class DeriveJob:
    """What every worker needs to know; ``path`` is the cohort or one run of it."""

    cohort: str
    path: str
    method: str
    params: Mapping[str, Any] = field(default_factory=dict)
    roots: Mapping[str, str] = field(default_factory=dict)
    plugins: Mapping[str, str] = field(default_factory=dict)


def work(job: DeriveJob, *, stop: Callable[[], bool] = lambda: False) -> None:
    for source, sha256 in job.plugins.items():
        load_plugin(source, sha256=sha256)
    recipe, opening = recipe_of(job.method), OpenRuns(job.roots)
    while not stop():
        result = derive(
            job.path,
            job.method,
            recipe,
            opening=opening,
            claim=lambda folder: _claimed(folder, stop),
            **job.params,
        )
        if not result.left:
            return
        time.sleep(POLL_SECONDS)


@contextmanager
def _claimed(folder: Path, stop: Callable[[], bool]) -> Iterator[bool]:
    if stop():
        yield False
        return
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lease = take(folder)
    if lease is None:
        yield False
        return
    with lease:
        yield True


def derive_with_workers(
    job: DeriveJob, executor: Executor, workers: int, *, force: bool = False
) -> DeriveResult:
    before = _looked_at(job, force=force)
    if not before.left:
        return before
    for name in (job.method, *(recipe_of(job.method).requires if force else ())):
        for run in before.left:
            forget(Path(job.cohort), name, run)
    ended = run_workers(executor, job, min(workers, len(before.left)))
    if ended.interrupted:
        raise KeyboardInterrupt(ended.interrupted)
    after = _looked_at(job)
    if after.left:
        lines = ended.failures or ("Expected workers to make every result, but some are left.",)
        raise CheckwiseError(lines[0])
    made = [record for record in after.current if record.run in before.left]
    current = [record for record in after.current if record.run not in before.left]
    return replace(after, made=tuple(made), current=tuple(current))


def _looked_at(job: DeriveJob, *, force: bool = False) -> DeriveResult:
    def nothing(folder: Path) -> AbstractContextManager[bool]:
        return nullcontext(False)

    recipe = recipe_of(job.method)
    return derive(job.path, job.method, recipe, force=force, claim=nothing, **job.params)


if __name__ == "__main__":
    run_job(DeriveJob, work)
