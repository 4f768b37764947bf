"""Objective sets, distances and variants of ac-nc, against the reference and each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from checkwise.study.compared_method import Method
from checkwise.study.methods import method
from checkwise.study.pool import Pool
from checkwise.tables.means_and_changes import MAIN, Pair, changes, means
from checkwise.tables.table import Cell, Table, table
from checkwise.tables.worst_domain import WHD

SETS = ("nc", "ne", "nec")
NORMS: tuple[tuple[str, Any], ...] = (("D1", 1), ("D2", 2), ("D∞", np.inf))
SEED_OBJECTIVES = 20260924


def objectives(pool: Pool) -> Table:
    """All nine combinations of objective set and distance."""
    pairs = [
        Pair((name.upper(), norm), method(f"ac-{name}", q=q), "source-acc")
        for name in SETS
        for norm, q in NORMS
    ]
    return table(
        "objectives",
        "Objective sets and distances − source-acc, paired by run",
        ("objectives", "distance"),
        changes(pool, pairs, ("source_accuracy", *MAIN, WHD), pool.by_role()),
        signed=True,
    )


def distances(pool: Pool) -> Table:
    """D∞ minus D1 and D2 for the reference objectives."""
    infinite = method("ac-nc", q=np.inf)
    pairs = [Pair((f"D∞ − {norm}",), infinite, method("ac-nc", q=q)) for norm, q in NORMS[:2]]
    cells = [
        *changes(pool, pairs, MAIN, pool.by_role()),
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
        *changes(pool, [pair], MAIN, pool.by_role(), seed=SEED_OBJECTIVES),
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
    first, second = (pool.columns(rule)["step"] for rule in (pair.rule, pair.reference))
    return [
        Cell(
            pair.row,
            "same_checkpoint",
            float((first == second)[group.keep].sum()),
            int(group.keep.sum()),
            group.role,
        )
        for group in pool.by_role()
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


VARIANTS: tuple[tuple[str, Method], ...] = (
    ("η = 0", method("ac-nc", eta=0.0)),
    ("Pareto filter", method("ac-nc", pareto=True)),
    ("hard-bin CwECE", method("ac", objectives=("nll", "hard_cwece"))),
    ("Brier score for NLL", method("ac", objectives=("brier", "cwece"))),
)


def sensitivity(pool: Pool) -> Table:
    """Variants of ac-nc − ac-nc, and in how many runs the choice changes."""
    carried = pool.trajectory(pool.keys[0]).metrics
    variants = [
        (name, variant)
        for name, variant in VARIANTS
        if set(variant.params.get("objectives", ())) <= set(carried)
    ]
    pairs = [Pair((name,), variant, "ac-nc") for name, variant in variants]
    cells = list(changes(pool, pairs, MAIN, pool.by_role()))
    usual = pool.columns("ac-nc")["step"]
    for group in pool.by_role():
        for name, variant in variants:
            moved = (pool.columns(variant)["step"] != usual)[group.keep]
            count = float(moved.sum())
            cells.append(Cell((name,), "choices_changed", count, len(moved), group.role))
    return table(
        "sensitivity",
        "Variants of ac-nc − ac-nc, paired by run",
        ("variant",),
        cells,
        note="With two feasible checkpoints of opposed order, η decides by the raw ranges.",
        signed=True,
    )
