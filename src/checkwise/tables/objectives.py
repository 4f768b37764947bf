"""Objective sets and distances against the reference, and against each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from checkwise.study.pool import Pool
from checkwise.study.setting import Setting
from checkwise.tables.cells import MAIN, WHD, Pair, changes, means
from checkwise.tables.table import Cell, Table, table

SETS = ("nc", "ne", "nec")
NORMS: tuple[tuple[str, Any], ...] = (("D1", 1), ("D2", 2), ("D∞", np.inf))
SEED_OBJECTIVES = 20260924


def objectives(pool: Pool) -> Table:
    """All nine combinations of objective set and distance."""
    pairs = [
        Pair((name.upper(), norm), Setting(f"ac-{name}", {"q": q}), "source-acc")
        for name in SETS
        for norm, q in NORMS
    ]
    return table(
        "objectives",
        "Objective sets and distances − source-acc, paired by run",
        ("objectives", "distance"),
        changes(pool, pairs, ("source_accuracy", *MAIN, WHD), pool.scopes()),
        signed=True,
    )


def distances(pool: Pool) -> Table:
    """D∞ minus D1 and D2 for the reference objectives."""
    infinite = Setting("ac-nc", {"q": np.inf})
    pairs = [Pair((f"D∞ − {norm}",), infinite, Setting("ac-nc", {"q": q})) for norm, q in NORMS[:2]]
    cells = [
        *changes(pool, pairs, MAIN, pool.scopes()),
        *(cell for pair in pairs for cell in _same(pool, pair)),
    ]
    return table(
        "distances",
        "Distances of NC compared directly, paired by run",
        ("contrast",),
        cells,
        signed=True,
    )


def objective_changes(pool: Pool) -> Table:
    """NEC minus NC at D∞."""
    pair = Pair(("NEC − NC",), "ac-nec", "ac-nc")
    cells = [
        *changes(pool, [pair], MAIN, pool.scopes(), seed=SEED_OBJECTIVES),
        *_same(pool, pair),
    ]
    return table(
        "objective-changes",
        "NEC − NC at D∞, paired by run",
        ("contrast",),
        cells,
        note="Single runs can carry a mean NLL: see the median, the trimmed mean and `influence`.",
        signed=True,
    )


def _same(pool: Pool, pair: Pair) -> list[Cell]:
    """In how many runs both choose the same checkpoint."""
    mine, theirs = (pool.columns(rule)["step"] for rule in (pair.rule, pair.reference))
    return [
        Cell(
            pair.row,
            "same_checkpoint",
            float((mine == theirs)[scope.keep].sum()),
            int(scope.keep.sum()),
            scope.role,
        )
        for scope in pool.scopes()
    ]


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
