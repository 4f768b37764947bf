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
from checkwise.study.compare import marked
from checkwise.study.pool import Group, Pool
from checkwise.tables.means_and_changes import mean_or_nan
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
    sets = {}
    for key, selection in select_many(runs, "ac-nc", guard=False).items():
        feasible = selection.ranking.eligible
        columns = Columns.of(runs[key])
        errors = np.stack([columns[name] for name in OBJECTIVES])
        undominated = int(nondominated(errors, feasible).sum())
        size = int(feasible.sum())
        inside = errors[:, feasible]
        opposed = size == 2 and float(np.prod(inside[:, 0] - inside[:, 1])) < 0
        sets[key] = FeasibleSet(size, undominated, opposed)
    return sets


def composition(pool: Pool) -> Table:
    """Counts of runs by what their feasible set holds."""
    sets = feasible_sets(pool)
    chosen = {rule: pool.columns(rule)["step"] for rule in RULES}
    cells: list[Cell] = []
    for group in _groups(pool):
        of_group = [sets[key] for key in marked(pool.keys, group.keep)]
        many = np.array([s.size > 1 for s in of_group])
        differs = (chosen["ac-nc"] != chosen["source-acc"])[group.keep]
        counts = {
            "runs": len(of_group),
            "feasible_total": sum(s.size for s in of_group),
            "singletons": sum(s.size == 1 for s in of_group),
            "multi": int(many.sum()),
            "differs": int(differs.sum()),
            "nondominated_one": sum(s.nondominated == 1 for s in of_group),
            "nondominated_many": sum(s.nondominated > 1 for s in of_group),
            "pairs": sum(s.size == 2 for s in of_group),
            "pairs_opposed": sum(s.opposed for s in of_group),
        }
        cells += [
            Cell(group.labels, name, float(count), len(of_group), group.role)
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
    everything = [Group(("all",), group.role, group.keep) for group in pool.by_role()]
    return [*pool.groups(["dataset"]), *everything]


def _pairs(rules: Sequence[str]) -> list[tuple[str, str]]:
    return [(a, b) for i, a in enumerate(rules) for b in rules[i + 1 :]]


SOURCE = ("accuracy", "nll", "cwece")
TARGET = ("nll", "cwece")


def plateau(pool: Pool) -> Table:
    """Mean range of each metric inside Θ, per data set and algorithm; CwECE is not scaled."""
    ranges = {key: _ranges(pool, key, feasible) for key, feasible in _feasible(pool).items()}
    cells = []
    for group in pool.groups(["dataset", "algorithm"]):
        of_group = [ranges[key] for key in marked(pool.keys, group.keep)]
        for measure in of_group[0]:
            values = np.array([of_run[measure] for of_run in of_group])
            values = values[np.isfinite(values)]
            value = mean_or_nan(values)
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
    return {key: s.ranking.eligible for key, s in select_many(runs, "ac-nc", guard=False).items()}


def _ranges(pool: Pool, key: RunKey, feasible: NDArray[np.bool_]) -> dict[str, float]:
    columns = Columns.of(pool.trajectory(key))
    target = pool.target(key)
    return {
        "eligible": float(feasible.sum()),
        **{f"range_source_{m}": float(np.ptp(columns[m][feasible])) for m in SOURCE},
        **{f"range_target_{m}": float(np.ptp(target[m][feasible])) for m in TARGET},
    }
