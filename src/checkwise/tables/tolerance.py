"""The tolerance δ: what it lets in, what it costs and what it brings."""

from __future__ import annotations

from checkwise.study.pool import Pool, Rule
from checkwise.study.setting import Setting
from checkwise.tables.cells import MAIN, Pair, changes, means
from checkwise.tables.table import Table, table

DELTAS = ("0.1", "0.5", "1.0")
SEED_TOLERANCE = 20260924
_LEVELS = ("eligible", "gap_pp", *MAIN)


def setting(delta: str) -> Setting:
    """ac-nc with this tolerance."""
    return Setting("ac-nc", {"delta_pp": delta}, f"δ = {delta}")


def tolerance(pool: Pool) -> Table:
    """Levels at every tolerance."""
    rules: list[Rule] = ["source-acc", *(setting(delta) for delta in DELTAS)]
    return table(
        "tolerance",
        "ac-nc at several tolerances, means over runs",
        ("rule",),
        means(pool, rules, _LEVELS, pool.scopes()),
    )


def tolerance_dataset(pool: Pool) -> Table:
    """The same per data set."""
    return table(
        "tolerance-dataset",
        "ac-nc at several tolerances per data set",
        ("dataset", "rule"),
        means(pool, [setting(delta) for delta in DELTAS], _LEVELS, pool.groups(["dataset"])),
    )


def tolerance_changes(pool: Pool) -> Table:
    """Each tolerance minus 0.5 points."""
    pairs = [
        Pair((f"δ = {delta} − δ = 0.5",), setting(delta), setting("0.5"))
        for delta in DELTAS
        if delta != "0.5"
    ]
    return table(
        "tolerance-changes",
        "Tolerances compared with 0.5 points, paired by run",
        ("contrast",),
        changes(pool, pairs, ("source_accuracy", *MAIN), pool.scopes(), seed=SEED_TOLERANCE),
        note="δ changes the feasible set and the scale on which objectives are compared.",
        signed=True,
    )
