"""What rules would have chosen had training stopped earlier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from checkwise.records import Trajectory
from checkwise.selection import select_many
from checkwise.study.compare import pair
from checkwise.study.compared_method import Method
from checkwise.study.outcome import RunColumns
from checkwise.study.pool import Group, Pool
from checkwise.tables.means_and_changes import MAIN, choice_cells, paired_cells
from checkwise.tables.partial_runs import columns_of, part_of
from checkwise.tables.table import Cell, Table, table

PERCENTS: Final = (10, 20, 40, 60, 100)  # of the last step that a run recorded


def within(run: Trajectory, percent: int) -> NDArray[np.bool_]:
    """The checkpoints that the run had left when this share of its steps was done."""
    return np.asarray(100 * run.steps <= percent * run.steps[-1])


def choices_within(pool: Pool, rules: Sequence[Method], percent: int) -> dict[str, RunColumns]:
    """RunColumns of every rule, choosing only among the first checkpoints of each run.

    A run is nan where it had no checkpoint yet, or none that did not diverge.
    """
    if percent == 100:
        return {row.label: pool.columns(row) for row in rules}
    for row in rules:
        row.check_is_rule()
    needs = {name for row in rules if row.rule is not None for name in row.rule.needs}
    runs = {}
    for key in pool.keys:
        run = pool.trajectory(key)
        keep = within(run, percent)
        if (keep & ~run.diverged).any():
            runs[key] = part_of(run, keep, needs)
    nothing = {"step": np.full(len(pool), np.nan)}
    return {
        row.label: RunColumns(
            {**nothing, **columns_of(pool, select_many(runs, row.rule, guard=False, **row.params))}
        )
        for row in rules
    }


def horizon_labels(pool: Pool) -> tuple[str, ...]:
    """What the horizons are called: steps where all runs are equally long, else percentages."""
    last = {int(pool.trajectory(key).steps[-1]) for key in pool.keys}
    ends = {percent * max(last) // 100 for percent in PERCENTS}
    if len(last) == 1 and len(ends) == len(PERCENTS):
        return tuple(str(end) for end in sorted(ends))
    return tuple(f"{percent}%" for percent in PERCENTS)


def length(pool: Pool) -> Table:
    """Changes per data set where both rules choose among the first part of every run."""
    choices = {
        percent: choices_within(pool, (pool.rule, pool.reference), percent) for percent in PERCENTS
    }
    cells: list[Cell] = []
    for data in pool.groups(["dataset"]):
        for percent, label in zip(PERCENTS, horizon_labels(pool), strict=True):
            rule = choices[percent][pool.rule.label]
            reference = choices[percent][pool.reference.label]
            keep = data.keep & np.isfinite(rule["step"])
            if not keep.any():
                continue
            group = Group((*data.labels, label), data.role, keep)
            changes = pair(
                pool.rule.label,
                pool.reference.label,
                pool.keys,
                ("gap_pp", *MAIN),
                rule,
                reference,
            )
            cells += paired_cells(changes.among(keep), group.labels, group.role)
            cells += choice_cells(pool, rule, reference, group)
    return table(
        "length",
        f"{pool.contrast} had training stopped after this step (or share of all steps)",
        ("dataset", "until"),
        cells,
        note="With a constant learning rate the first part of a run is what a shorter run would "
        "have been.",
        signed=True,
    )
