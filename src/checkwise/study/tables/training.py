"""Changes against the learning rate that runs were trained with, and how long they were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Final

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.records import Trajectory
from checkwise.selection import select_many
from checkwise.store import RUN_FILE, read_run
from checkwise.study import Group, Pool, RunColumns, pair
from checkwise.study.tables.cells import MAIN, changes, choice_cells, paired_cells
from checkwise.study.tables.from_logits import columns_of, part_of
from checkwise.study.tables.table import Cell

PARTS = 3  # of rates that were drawn for every run
MANY = 12  # rates above which those of single runs are no rows of their own
PERCENTS: Final = (10, 20, 40, 60, 100)  # of the last step that a run recorded
MEASURES = ("gap_pp", *MAIN)


def hparam(pool: Pool, name: str) -> list[float]:
    """One hyperparameter of every run in key order, known before any target is opened."""
    values = []
    for key in pool.keys:
        folder = pool.folder(key)
        config = read_run(folder).config
        hparams = config.get("hparams")
        value = hparams.get(name) if isinstance(hparams, Mapping) else None
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise InputError(
                f"Expected the hyperparameter {name} as a number, but got {value!r:.60} in "
                f"{folder / RUN_FILE}: use runs that record it.",
                code="missing",
            )
        values.append(float(value))
    return values


def by_rate(pool: Pool) -> list[Group]:
    """Runs by data set and learning rate, ascending; rates equal to three digits are one."""
    rates = [f"{rate:.3g}" for rate in hparam(pool, "lr")]
    labels = [(key.dataset, rate) for key, rate in zip(pool.keys, rates, strict=True)]
    return pool.split(labels, sorted(set(labels), key=lambda label: (label[0], float(label[1]))))


def by_third(pool: Pool) -> list[Group]:
    """Runs by data set and third of its learning rates, ascending: where every run drew its own."""
    rates = np.array(hparam(pool, "lr"))
    groups = []
    for data in pool.groups(["dataset"]):
        ascending = np.flatnonzero(data.keep)[np.argsort(rates[data.keep], kind="stable")]
        for third in filter(len, np.array_split(ascending, PARTS)):
            keep = np.isin(np.arange(len(pool)), third)
            ends = f"{rates[third[0]]:.2g} to {rates[third[-1]]:.2g}"
            groups.append(Group((*data.labels, ends), data.role, keep))
    return groups


def learning_rate(pool: Pool) -> Iterator[Cell]:
    """Changes per data set and learning rate, or thirds of them where most runs drew their own."""
    groups = by_rate(pool)
    alone = sum(int(group.keep.sum()) == 1 for group in groups)
    columns = (pool.columns(pool.rule), pool.columns(pool.reference))
    for group in by_third(pool) if len(groups) > MANY and 2 * alone > len(groups) else groups:
        yield from changes(pool, {(): (pool.rule, pool.reference)}, MEASURES, [group])
        yield from choice_cells(pool, *columns, group)


def within(run: Trajectory, percent: int) -> NDArray[np.bool_]:
    """The checkpoints that the run had left when this share of its steps was done."""
    return np.asarray(100 * run.steps <= percent * run.steps[-1])


def choices_within(pool: Pool, percent: int) -> tuple[RunColumns, RunColumns]:
    """What rule and reference choose early in each run; nan where there was nothing to choose."""
    rows = (pool.rule, pool.reference)
    if percent == 100:
        return pool.columns(rows[0]), pool.columns(rows[1])
    for row in rows:
        row.check_is_rule()
    needs = {name for row in rows if row.rule is not None for name in row.rule.needs}
    runs = {}
    for key in pool.keys:
        run = pool.trajectory(key)
        keep = within(run, percent)
        if (keep & ~run.diverged).any():
            runs[key] = part_of(run, keep, needs)
    nothing = {"step": np.full(len(pool), np.nan)}
    chosen = [columns_of(pool, select_many(runs, row.choice())) for row in rows]
    return RunColumns({**nothing, **chosen[0]}), RunColumns({**nothing, **chosen[1]})


def horizon_labels(pool: Pool) -> tuple[str, ...]:
    """What the horizons are called: steps where all runs are equally long, else percentages."""
    last = {int(pool.trajectory(key).steps[-1]) for key in pool.keys}
    ends = {percent * max(last) // 100 for percent in PERCENTS}
    if len(last) == 1 and len(ends) == len(PERCENTS):
        return tuple(str(end) for end in sorted(ends))
    return tuple(f"{percent}%" for percent in PERCENTS)


def length(pool: Pool) -> Iterator[Cell]:
    """Changes per data set where both rules choose among the first part of every run."""
    choices = [choices_within(pool, percent) for percent in PERCENTS]
    names = (pool.rule.label, pool.reference.label)
    for data in pool.groups(["dataset"]):
        for (rule, reference), until in zip(choices, horizon_labels(pool), strict=True):
            keep = data.keep & np.isfinite(rule["step"])
            if keep.any():
                group = Group((*data.labels, until), data.role, keep)
                table = pair(*names, pool.keys, MEASURES, rule, reference).among(keep)
                yield from paired_cells(table, group.labels, group.role)
                yield from choice_cells(pool, rule, reference, group)
