"""Selection without an accuracy constraint, and what it collapses to."""

from __future__ import annotations

import numpy as np

from checkwise.study.pool import Pool
from checkwise.study.tables.cells import MAIN, means
from checkwise.study.tables.table import Cell, Table, table

RULES = ("source-acc", "pure-ece", "pure-cwece", "pure-nll")


def pure(pool: Pool) -> Table:
    """Means, the mean step, and how often the untrained network wins."""
    groups = pool.groups(["dataset"])
    cells = list(means(pool, RULES, ("source_accuracy", *MAIN, "step"), groups))
    for group in groups:
        for rule in RULES:
            steps = pool.columns(rule)["step"][group.keep]
            share = 100 * float(np.mean(steps == 0)) if len(steps) else float("nan")
            row = (*group.labels, rule)
            cells.append(Cell(row, "step_0_share", share, len(steps), group.role, 100))
    return table(
        "pure",
        "Unconstrained selection: smallest error over the whole run",
        ("dataset", "rule"),
        cells,
        note="Uniform predictions are perfectly calibrated, so step 0 can win on ECE and CwECE.",
    )
