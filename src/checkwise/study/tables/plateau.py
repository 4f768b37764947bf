"""How much the feasible checkpoints of a run differ."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from checkwise.records import RunKey
from checkwise.selection import select_many
from checkwise.selection.table import view_of
from checkwise.study.pool import Pool
from checkwise.study.tables.table import Cell, Table, table

SOURCE = ("accuracy", "nll", "cwece")
TARGET = ("nll", "cwece")


def plateau(pool: Pool) -> Table:
    """Mean range of each metric inside Θ, per data set and algorithm; CwECE is not scaled."""
    found = {key: _ranges(pool, key, feasible) for key, feasible in _feasible(pool).items()}
    cells = []
    for group in pool.groups(["dataset", "algorithm"]):
        mine = [found[pool.keys[i]] for i in np.flatnonzero(group.keep).tolist()]
        for measure in mine[0]:
            values = np.array([ranges[measure] for ranges in mine])
            values = values[np.isfinite(values)]
            value = float(values.mean()) if len(values) else float("nan")
            factor = 100 if measure == "range_source_accuracy" else 1
            cells.append(
                Cell(group.labels, measure, factor * value, len(values), group.role, factor)
            )
    return table(
        "plateau",
        "Ranges inside the feasible set at δ = 0.5, means over runs",
        ("dataset", "algorithm"),
        cells,
        note="Accuracy in points; NLL and CwECE as they are (CwECE on the 0–1 scale).",
    )


def _feasible(pool: Pool) -> dict[RunKey, NDArray[np.bool_]]:
    runs = {key: pool.trajectory(key) for key in pool.keys}
    return {key: s.ranking.eligible for key, s in select_many(runs, "ac-nc").items()}


def _ranges(pool: Pool, key: RunKey, feasible: NDArray[np.bool_]) -> dict[str, float]:
    columns = view_of(pool.trajectory(key), "equal", False).columns
    target = pool.target(key)
    return {
        "eligible": float(feasible.sum()),
        **{f"range_source_{m}": float(np.ptp(columns[m][feasible])) for m in SOURCE},
        **{f"range_target_{m}": float(np.ptp(target[m][feasible])) for m in TARGET},
    }
