"""The main results: means per data set, paired changes, where they come from and who loses."""

from __future__ import annotations

from dataclasses import replace
from math import isnan

import numpy as np

from checkwise.study import Group, Pool, method
from checkwise.study.inference import spread
from checkwise.study.tables.means_and_changes import MAIN, Pair, changes, means
from checkwise.study.tables.table import Cell, Table, table
from checkwise.study.tables.typeset import OVER_RUNS
from checkwise.study.tables.worst_domain import WHD

PENALISED = ("IRM", "VREx")
PRESERVED = "An accuracy interval that contains zero does not show that accuracy is preserved."
_LEVELS = ("gap_pp", *MAIN)


def paper(pool: Pool) -> Table:
    """Rules and metrics, with the one interval that leads: over runs where groups are too few."""
    pairs = [Pair((rule.label,), rule, pool.reference) for rule in (pool.rule, *pool.others)]
    cells = list(changes(pool, pairs, MAIN, pool.by_role()))
    over_runs = {(c.row, c.role, c.measure): c for c in cells if c.measure.endswith(OVER_RUNS)}
    leading = [
        replace(spare, measure=cell.measure) if isnan(cell.low) and spare is not None else cell
        for cell in cells
        if cell.measure in MAIN
        for spare in [over_runs.get((cell.row, cell.role, cell.measure + OVER_RUNS))]
    ]
    return table(
        "paper",
        f"Change of target results against {pool.reference.label}, paired by run",
        ("rule",),
        leading,
        note=PRESERVED,
        signed=True,
    )


def main(pool: Pool) -> Table:
    """Means per data set."""
    return table(
        "main",
        f"Target results of {pool.rule.label} and {pool.reference.label}, means over runs",
        ("dataset", "rule"),
        means(pool, (pool.reference, pool.rule), _LEVELS, pool.groups(["dataset"])),
    )


def main_changes(pool: Pool) -> Table:
    """The paired row, for data of either role and for both."""
    return table(
        "main-changes",
        f"{pool.contrast}, paired by run",
        (),
        changes(pool, [Pair((), pool.rule, pool.reference)], (*_LEVELS, WHD), pool.by_role()),
        note=PRESERVED,
        signed=True,
    )


def by_algorithm(pool: Pool) -> Table:
    """Changes per data set and algorithm."""
    groups = pool.groups(["dataset", "algorithm"])
    return table(
        "by-algorithm",
        f"{pool.contrast} per data set and algorithm",
        ("dataset", "algorithm"),
        changes(pool, [Pair((), pool.rule, pool.reference)], (*_LEVELS, WHD), groups),
        signed=True,
    )


def without_penalties(pool: Pool) -> Table:
    """The paired row with and without algorithms whose penalties can wreck a run."""
    plain = np.array([key.algorithm not in PENALISED for key in pool.keys])
    groups = [
        Group((name,), group.role, keep)
        for group in pool.by_role()
        for name, keep in (
            ("all algorithms", group.keep),
            ("without IRM and VREx", group.keep & plain),
        )
        if keep.any()
    ]
    return table(
        "without-penalties",
        f"{pool.contrast} with and without IRM and VREx",
        ("among",),
        changes(pool, [Pair((), pool.rule, pool.reference)], _LEVELS, groups),
        note="Penalties of the default range can wreck a head; such runs are kept in every table.",
        signed=True,
    )


def losses(pool: Pool) -> Table:
    """How target accuracy changes are spread over runs."""
    pairs = [Pair((pool.contrast,), pool.rule, pool.reference)]
    if "delta_pp" in pool.rule.takes:
        tenth, half, one = (method(pool.rule, delta_pp=d) for d in ("0.1", "0.5", "1.0"))
        pairs.append(Pair(("δ = 0.1 − δ = 0.5",), tenth, half))
        pairs.append(Pair(("δ = 1.0 − δ = 0.5",), one, half))
    groups = [
        *pool.groups(["dataset"]),
        *(Group(("all",), group.role, group.keep) for group in pool.by_role()),
    ]
    cells = [cell for group in groups for pair in pairs for cell in _losses(pool, pair, group)]
    return table(
        "losses",
        "Runs that gain or lose target accuracy, in points of accuracy",
        ("dataset", "contrast"),
        cells,
        note="The tolerance bounds the loss of source accuracy, not of target accuracy.",
    )


def _losses(pool: Pool, pair: Pair, group: Group) -> list[Cell]:
    values = pool.differences(pair.rule, pair.reference, ["target_accuracy"], group.keep).values
    counts = spread(values[np.isfinite(values)], higher_is_better=True)
    row, n = (*group.labels, *pair.row), counts.n
    share = counts.lose_point / n if n else float("nan")
    return [
        *(
            Cell(row, name, float(count), n, group.role)
            for name, count in (
                ("gain", counts.wins),
                ("equal", counts.ties),
                ("lose", counts.losses),
                ("lose_1pp", counts.lose_point),
            )
        ),
        Cell(row, "lose_1pp_share", 100 * share, n, group.role, 100),
        Cell(row, "percentile_5", counts.tail, n, group.role, 100),
        Cell(row, "worst", counts.worst, n, group.role, 100),
    ]
