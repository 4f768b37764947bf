"""The tolerance δ: what it lets in, what it costs and what it brings."""

from __future__ import annotations

from checkwise.selection.constrained import DELTA_PP
from checkwise.study.compared_method import Method
from checkwise.study.methods import method
from checkwise.study.pool import Pool, Row
from checkwise.tables.means_and_changes import MAIN, Pair, changes, means
from checkwise.tables.table import Table, table

USUAL = str(DELTA_PP)
DELTAS = ("0.1", USUAL, "1.0")
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
    """Each tolerance minus the default one."""
    pairs = [
        Pair((f"δ = {delta} − δ = {USUAL}",), at_tolerance(delta), at_tolerance(USUAL))
        for delta in DELTAS
        if delta != USUAL
    ]
    return table(
        "tolerance-changes",
        f"Tolerances compared with {USUAL} points, paired by run",
        ("contrast",),
        changes(pool, pairs, ("source_accuracy", *MAIN), pool.by_role(), seed=SEED_TOLERANCE),
        note="δ changes the feasible set and the scale on which objectives are compared.",
        signed=True,
    )
