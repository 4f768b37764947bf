"""The effect against the learning rate that runs were trained with."""

from __future__ import annotations

from checkwise.study.hparams import hparam
from checkwise.study.pool import Group, Pool
from checkwise.study.tables.cells import MAIN, Pair, changes, choice_cells
from checkwise.study.tables.table import Cell, Table, table


def by_rate(pool: Pool) -> list[Group]:
    """Runs by data set and learning rate, ascending; rates equal to three digits are one."""
    rates = [f"{rate:.3g}" for rate in hparam(pool, "lr")]
    labels = [(key.dataset, rate) for key, rate in zip(pool.keys, rates, strict=True)]
    return pool.split(labels, sorted(set(labels), key=lambda label: (label[0], float(label[1]))))


def learning_rate(pool: Pool) -> Table:
    """Changes per data set and learning rate."""
    cells: list[Cell] = []
    for group in by_rate(pool):
        cells += changes(pool, [Pair((), "ac-nc", "source-acc")], ("gap_pp", *MAIN), [group])
        cells += choice_cells(pool.columns("ac-nc"), pool.columns("source-acc"), group)
    return table(
        "learning-rate",
        "ac-nc − source-acc against the learning rate",
        ("dataset", "learning rate"),
        cells,
        note="A rate that was drawn comes with the weight decay, batch size and split of its draw: "
        "a trend need not be the rate's.",
        signed=True,
    )
