"""Changes against the learning rate that runs were trained with."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from checkwise.errors import InputError
from checkwise.store import layout
from checkwise.store.run import read_run
from checkwise.study.pool import Group, Pool
from checkwise.tables.means_and_changes import MAIN, Pair, changes, choice_cells
from checkwise.tables.table import Cell, Table, table

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
            f"{hparams!r:.60} in {folder / layout.RUN}: use runs that checkwise trained.",
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
            f"{folder / layout.RUN}: use runs that record it.",
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
