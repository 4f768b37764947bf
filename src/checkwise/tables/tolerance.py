"""The tolerance δ: what it lets in, what it costs and what it brings."""

from __future__ import annotations

from checkwise.study.methods import Method, method
from checkwise.study.pool import Pool, Row
from checkwise.tables.means_and_changes import MAIN, Pair, changes, means
from checkwise.tables.table import Table, table

DELTAS = ("0.1", "0.5", "1.0")
SEED_TOLERANCE = 20260924
_LEVELS = ("eligible", "gap_pp", *MAIN)


def at_tolerance(delta: str) -> Method:
    """ac-nc with this tolerance."""
    return method("ac-nc", delta_pp=delta).called(f"δ = {delta}")


def tolerance(pool: Pool) -> Table:
    """Levels at every tolerance."""
    rules: list[Row] = ["source-acc", *(at_tolerance(delta) for delta in DELTAS)]
    return table(
        "tolerance",
        "ac-nc at several tolerances, means over runs",
        ("rule",),
        means(pool, rules, _LEVELS, pool.by_role()),
    )


def tolerance_dataset(pool: Pool) -> Table:
    """The same per data set."""
    return table(
        "tolerance-dataset",
        "ac-nc at several tolerances per data set",
        ("dataset", "rule"),
        means(pool, [at_tolerance(delta) for delta in DELTAS], _LEVELS, pool.groups(["dataset"])),
    )


def tolerance_changes(pool: Pool) -> Table:
    """Each tolerance minus 0.5 points."""
    pairs = [
        Pair((f"δ = {delta} − δ = 0.5",), at_tolerance(delta), at_tolerance("0.5"))
        for delta in DELTAS
        if delta != "0.5"
    ]
    return table(
        "tolerance-changes",
        "Tolerances compared with 0.5 points, paired by run",
        ("contrast",),
        changes(pool, pairs, ("source_accuracy", *MAIN), pool.by_role(), seed=SEED_TOLERANCE),
        note="δ changes the feasible set and the scale on which objectives are compared.",
        signed=True,
    )
