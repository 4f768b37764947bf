"""Making the models of a method for the runs of a cohort, and keeping them beside it.

Workers may make them too: each takes groups of runs that no other works on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from checkwise.deployed import encode
from checkwise.errors import CheckwiseError, InputError
from checkwise.plugins import load_plugin
from checkwise.records import RunKey
from checkwise.store import RUN_FILE, finished, has_file, latest_attempt, read_run, writing
from checkwise.study import recipe_of
from checkwise.study.baselines import derived
from checkwise.study.baselines.evaluate import OpenRun, OpenRuns
from checkwise.study.baselines.recipe import Plan, Recipe, StoredRun
from checkwise.study.folder import CohortRecord, is_cohort, open_cohort, take
from checkwise.study.sweep import Executor, run_job, run_workers

Watch = Callable[[int, int], None]
# Whether the results in a folder may be made by this process, for as long as it makes them.
Claim = Callable[[Path], AbstractContextManager[bool]]


@dataclass(frozen=True)
class DeriveResult:
    """What ``derive`` did; ``left`` are runs whose results another worker makes."""

    made: tuple[derived.Derived, ...]
    current: tuple[derived.Derived, ...]
    unfinished: tuple[RunKey, ...]
    wrecked: tuple[RunKey, ...]
    left: tuple[RunKey, ...] = ()

    @property
    def records(self) -> tuple[derived.Derived, ...]:
        return tuple(sorted((*self.made, *self.current), key=lambda record: record.run))


def derive(
    path: Path | str,
    method: str,
    recipe: Recipe,
    *,
    opening: OpenRuns | None = None,
    force: bool = False,
    watch: Watch = lambda done, total: None,
    claim: Claim = lambda folder: nullcontext(True),
    **params: Any,
) -> DeriveResult:
    """Make a method's model for every finished run of a cohort, or for one run of it.

    Results are kept under the method's name. Those whose inputs have not changed are left alone
    unless ``force``. ``params`` replace the recipe's defaults. Held-out results are written, never
    read. Only results that ``claim`` grants are made. Calls for several methods share ``opening``,
    so that a checkpoint is evaluated once for all of them.
    """
    opening = opening or OpenRuns()
    complete = recipe.complete(method, params)
    cohort, asked = _locate(Path(path))
    whole = len(asked) > 1
    runs = [StoredRun(cohort.path, key, cohort.runs[key]) for key in asked]
    finished_runs = [run for run in runs if finished(run.folder)]
    wrecked = [run for run in finished_runs if read_run(run.folder).all_diverged]
    usable = [run for run in finished_runs if run not in wrecked]
    if not usable:
        raise InputError(
            f"Expected a finished run in {path}, but {len(runs) - len(finished_runs)} are "
            f"unfinished and {len(wrecked)} diverged: `checkwise study run` with the same study "
            "finishes runs.",
            code="empty",
        )
    by_group: dict[tuple[Any, ...], list[StoredRun]] = {}
    for run in usable if whole else _with_mates(cohort, usable, recipe):
        by_group.setdefault(recipe.group_of(run.key), []).append(run)
    groups = list(by_group.values())
    lone = [group[0].key for group in groups if recipe.varied and len(group) < 2]
    if lone:
        raise InputError(
            f"Expected several runs to combine for {method}, but {lone[0]} stands alone: train "
            f"the study with more {recipe.varied}.",
            code="unsupported",
        )
    unfinished = tuple(run.key for run in runs if run not in finished_runs)
    nothing = unfinished, tuple(run.key for run in wrecked)
    missing: list[RunKey] = []
    for required, its_recipe in recipe.requires.items():
        members = [run.folder for group in groups for run in group]
        for place in [cohort.path] if whole else members:
            step = derive(place, required, its_recipe, opening=opening, force=force, claim=claim)
            missing += step.left
    if missing:
        return DeriveResult((), (), *nothing, tuple(run.key for group in groups for run in group))
    made: list[derived.Derived] = []
    current: list[derived.Derived] = []
    left: list[RunKey] = []
    for number, group in enumerate(groups):
        watch(number, len(groups))
        plan = recipe.plan(group, complete)
        known = [] if force else _current(cohort.path, method, group, plan, complete)
        if known:
            current += known
            continue
        with claim(derived.folder_of(cohort.path, method, group[0].key)) as granted:
            if not granted:
                left += [run.key for run in group]
                continue
            known = [] if force else _current(cohort.path, method, group, plan, complete)
            if known:  # made by another worker while this one waited for the claim
                current += known
                continue
            opened = [opening(cohort, run.key) for run in group]
            made += _make(cohort.path, method, opened, recipe, plan, complete)
    watch(len(groups), len(groups))
    return DeriveResult(tuple(made), tuple(current), *nothing, tuple(left))


def _current(
    cohort: Path, method: str, group: Sequence[StoredRun], plan: Plan, params: Mapping[str, Any]
) -> list[derived.Derived]:
    records = [derived.read_record(cohort, method, run.key) for run in group]
    same = [r for r in records if r is not None and r.same_inputs(params, plan.inputs)]
    return same if len(same) == len(group) else []


def _make(
    cohort: Path,
    method: str,
    runs: Sequence[OpenRun],
    recipe: Recipe,
    plan: Plan,
    params: Mapping[str, Any],
) -> list[derived.Derived]:
    """Make, evaluate and write the models of one group."""
    kept = runs[0].kept  # shared by all of them
    began, spared = time.perf_counter(), kept.spared
    models = recipe.make(runs, plan.inputs, params)
    entries = {run.key: run.entries(models[run.key].outputs) for run in runs}
    seconds = (time.perf_counter() - began + kept.spared - spared) / len(runs)
    records = []
    for run in runs:
        model, (source, heldout) = models[run.key], entries[run.key]
        notes = (*plan.notes, *model.notes)
        record = derived.Derived(method, run.key, params, plan.inputs, seconds, notes)
        weights = None if model.weights is None else encode(model.weights)
        derived.write(cohort, record, source=source, heldout=heldout, weights=weights)
        records.append(record)
    return records


def _locate(path: Path) -> tuple[CohortRecord, list[RunKey]]:
    if is_cohort(path):
        cohort = open_cohort(path)
        return cohort, list(cohort.runs)
    folder = path.absolute()
    if has_file(latest_attempt(folder), RUN_FILE) and is_cohort(folder.parents[1]):
        cohort = open_cohort(folder.parents[1])
        keys = [key for key, place in cohort.runs.items() if place.name == folder.name]
        if keys:
            return cohort, keys
    raise InputError(
        f"Expected a study's folder, or a run inside one, but got {path}: use the folder that "
        "`checkwise study run` wrote.",
        code="unsupported",
    )


def _with_mates(
    cohort: CohortRecord, runs: Sequence[StoredRun], recipe: Recipe
) -> Sequence[StoredRun]:
    """A single run together with those it is combined with."""
    groups = {recipe.group_of(run.key) for run in runs}
    mates = [
        StoredRun(cohort.path, key, folder)
        for key, folder in cohort.runs.items()
        if finished(folder) and recipe.group_of(key) in groups
    ]
    return [run for run in mates if not read_run(run.folder).all_diverged]


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
            derived.forget(Path(job.cohort), name, run)
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
