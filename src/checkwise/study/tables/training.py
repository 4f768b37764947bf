"""Changes against the learning rate that runs were trained with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.records import Trajectory
from checkwise.selection import select_many
from checkwise.store import layout, read_run
from checkwise.study import Group, Method, Pool, RunColumns, pair
from checkwise.study.tables.diagnostics import columns_of, part_of
from checkwise.study.tables.means_and_changes import MAIN, Pair, changes, choice_cells, paired_cells
from checkwise.study.tables.table import Cell, Table, table

PARTS = 3  # of rates that were drawn for every run
MANY = 12  # rates above which those of single runs are no rows of their own


def hparams_of(folder: Path) -> Mapping[str, Any]:
    """Every hyperparameter of one run by name; they are known before any target is opened.

    Raises:
        InputError: the run does not say, as one that was read from foreign logs.
    """
    config = read_run(folder).config
    hparams = config.get("hparams") if isinstance(config, Mapping) else None
    if not isinstance(hparams, Mapping):
        raise InputError(
            "Expected the hyperparameters of the run under config → hparams, but got "
            f"{hparams!r:.60} in {folder / layout.RUN_FILE}: use runs that checkwise trained.",
            code="missing",
        )
    return hparams


def hparam(pool: Pool, name: str) -> list[float]:
    """One hyperparameter of every run, in key order.

    Raises:
        InputError: a run does not have it as a finite number.
    """
    return [_number(pool.folder(key), name) for key in pool.keys]


def _number(folder: Path, name: str) -> float:
    value = hparams_of(folder).get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise InputError(
            f"Expected the hyperparameter {name} as a number, but got {value!r:.60} in "
            f"{folder / layout.RUN_FILE}: use runs that record it.",
            code="missing",
        )
    return float(value)


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


def learning_rate(pool: Pool) -> Table:
    """Changes per data set and learning rate, or thirds of them where most runs drew their own."""
    cells: list[Cell] = []
    groups = by_rate(pool)
    alone = sum(int(group.keep.sum()) == 1 for group in groups)
    for group in by_third(pool) if len(groups) > MANY and 2 * alone > len(groups) else groups:
        cells += changes(pool, [Pair((), pool.rule, pool.reference)], ("gap_pp", *MAIN), [group])
        cells += choice_cells(pool, pool.columns(pool.rule), pool.columns(pool.reference), group)
    return table(
        "learning-rate",
        f"{pool.contrast} against the learning rate",
        ("dataset", "learning rate"),
        cells,
        note="A rate that was drawn comes with the weight decay, batch size and split of its draw: "
        "a trend need not be the rate's.",
        signed=True,
    )


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
