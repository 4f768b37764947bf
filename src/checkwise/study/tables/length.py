"""The effect against the length of training."""

from __future__ import annotations

import numpy as np

from checkwise.study.horizons import PERCENTS, choices_within, horizon_labels
from checkwise.study.paired import between
from checkwise.study.pool import Group, Pool
from checkwise.study.tables.cells import MAIN, choice_cells, paired_cells
from checkwise.study.tables.table import Cell, Table, table

RULE, REFERENCE = "ac-nc", "source-acc"


def length(pool: Pool) -> Table:
    """Changes per data set where both rules choose among the first part of every run."""
    made = {percent: choices_within(pool, (RULE, REFERENCE), percent) for percent in PERCENTS}
    cells: list[Cell] = []
    for data in pool.groups(["dataset"]):
        for percent, label in zip(PERCENTS, horizon_labels(pool), strict=True):
            mine, theirs = made[percent][RULE], made[percent][REFERENCE]
            keep = data.keep & np.isfinite(mine["step"])
            if not keep.any():
                continue
            group = Group((*data.labels, label), data.role, keep)
            found = between(RULE, REFERENCE, pool.keys, ("gap_pp", *MAIN), mine, theirs)
            cells += paired_cells(found.among(keep), group.labels, group.role)
            cells += choice_cells(mine, theirs, group)
    return table(
        "length",
        "ac-nc − source-acc had training stopped after this step (or share of all steps)",
        ("dataset", "until"),
        cells,
        note="With a constant learning rate the first part of a run is what a shorter run would "
        "have been.",
        signed=True,
    )
