"""What the feasible sets look like, and where rules disagree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkwise.records import RunKey
from checkwise.selection import select_many
from checkwise.selection.columns import Columns
from checkwise.selection.constrained import nondominated
from checkwise.study.pool import Group, Pool
from checkwise.tables.table import Cell, Table, table

RULES = ("source-acc", "ac-nll", "ac-cwece", "ac-ece", "ac-nc")
OBJECTIVES = ("nll", "cwece")


@dataclass(frozen=True)
class FeasibleSet:
    """One run's feasible set at δ = 0.5.

    Args:
        size: how many checkpoints.
        nondominated: how many of them no other matches or beats in NLL and CwECE.
        opposed: of exactly two, whether NLL and CwECE rank them in opposite order.
    """

    size: int
    nondominated: int
    opposed: bool


def feasible_sets(pool: Pool) -> dict[RunKey, FeasibleSet]:
    """The feasible set of every run, from source validation."""
    runs = {key: pool.trajectory(key) for key in pool.keys}
    found = {}
    for key, selection in select_many(runs, "ac-nc").items():
        feasible = selection.ranking.eligible
        columns = Columns.of(runs[key])
        errors = np.stack([columns[name] for name in OBJECTIVES])
        left = int(nondominated(errors, feasible).sum())
        size = int(feasible.sum())
        inside = errors[:, feasible]
        opposed = size == 2 and float(np.prod(inside[:, 0] - inside[:, 1])) < 0
        found[key] = FeasibleSet(size, left, opposed)
    return found


def composition(pool: Pool) -> Table:
    """Counts of runs by what their feasible set holds."""
    sets = feasible_sets(pool)
    chosen = {rule: pool.columns(rule)["step"] for rule in RULES}
    cells: list[Cell] = []
    for group in _groups(pool):
        at = np.flatnonzero(group.keep)
        mine = [sets[pool.keys[i]] for i in at.tolist()]
        many = np.array([s.size > 1 for s in mine])
        differs = (chosen["ac-nc"] != chosen["source-acc"])[at]
        counts = {
            "runs": len(mine),
            "feasible_total": sum(s.size for s in mine),
            "singletons": sum(s.size == 1 for s in mine),
            "multi": int(many.sum()),
            "differs": int(differs.sum()),
            "nondominated_one": sum(s.nondominated == 1 for s in mine),
            "nondominated_many": sum(s.nondominated > 1 for s in mine),
            "pairs": sum(s.size == 2 for s in mine),
            "pairs_opposed": sum(s.opposed for s in mine),
        }
        cells += [
            Cell(group.labels, name, float(count), len(mine), group.role)
            for name, count in counts.items()
        ]
        share = 100 * float(differs[many].mean()) if many.any() else float("nan")
        cells.append(Cell(group.labels, "differs_share", share, int(many.sum()), group.role, 100))
    return table(
        "composition",
        "Feasible sets at δ = 0.5: how many runs hold what",
        ("dataset",),
        cells,
        note="Pairs of opposed order tie under every distance but for η.",
    )


def disagreement(pool: Pool) -> Table:
    """Runs in which two rules choose different checkpoints, among those with a choice."""
    sets = feasible_sets(pool)
    many = np.array([sets[key].size > 1 for key in pool.keys])
    cells = []
    for group in _groups(pool):
        at = group.keep & many
        for first, second in _pairs(RULES):
            apart = pool.columns(first)["step"] != pool.columns(second)["step"]
            row = (*group.labels, f"{first} / {second}")
            count = float(apart[at].sum())
            cells.append(Cell(row, "disagree", count, int(at.sum()), group.role))
    return table(
        "disagreement",
        "Runs in which two rules choose different checkpoints, of those with several feasible",
        ("dataset", "rules"),
        cells,
    )


def _groups(pool: Pool) -> list[Group]:
    scopes = [Group(("all",), scope.role, scope.keep) for scope in pool.scopes()]
    return [*pool.groups(["dataset"]), *scopes]


def _pairs(rules: Sequence[str]) -> list[tuple[str, str]]:
    return [(a, b) for i, a in enumerate(rules) for b in rules[i + 1 :]]


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
    columns = Columns.of(pool.trajectory(key))
    target = pool.target(key)
    return {
        "eligible": float(feasible.sum()),
        **{f"range_source_{m}": float(np.ptp(columns[m][feasible])) for m in SOURCE},
        **{f"range_target_{m}": float(np.ptp(target[m][feasible])) for m in TARGET},
    }
