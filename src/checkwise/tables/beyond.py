"""How far a rule is from the best checkpoint in hindsight. The oracle cannot be deployed."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from checkwise.metrics import METRICS
from checkwise.selection import select_many
from checkwise.study.pool import Group, Pool, Rule, label
from checkwise.study.setting import Setting
from checkwise.tables.cells import MAIN, Pair, changes
from checkwise.tables.table import Cell, Table, table

FloatArray = NDArray[np.float64]
Among = Literal["all", "feasible"]


def oracle(pool: Pool, metric: str, among: Among = "all") -> FloatArray:
    """The best target value of any checkpoint, or of any feasible one, per run (fractions)."""
    runs = {key: pool.trajectory(key) for key in pool.keys}
    chosen = select_many(runs, "ac-nc") if among == "feasible" else {}
    best = np.full(len(pool), np.nan)
    higher = METRICS[metric].direction == "higher"
    for i, key in enumerate(pool.keys):
        values = pool.target(key)[metric]
        values = values[chosen[key].ranking.eligible] if among == "feasible" else values
        values = values[np.isfinite(values)]
        if len(values):
            best[i] = values.max() if higher else values.min()
    return best


def regret(pool: Pool, rule: Rule, metric: str, among: Among = "all") -> FloatArray:
    """What the rule's choice lacks to the oracle's, per run (fractions).

    It is negative only where the rule chose outside of what the oracle looked at.

    Args:
        pool: the runs.
        rule: whose choices.
        metric: ``nll``, ``accuracy`` …, on the target.
        among: the oracle looks at all checkpoints, or at the feasible ones only.
    """
    mine, best = pool.columns(rule)[f"target_{metric}"], oracle(pool, metric, among)
    return best - mine if METRICS[metric].direction == "higher" else mine - best


SENSITIVITY: tuple[tuple[str, Setting], ...] = (
    ("η = 0", Setting("ac-nc", {"eta": 0.0})),
    ("Pareto filter", Setting("ac-nc", {"pareto": True})),
    ("hard-bin CwECE", Setting("ac", {"objectives": ("nll", "hard_cwece")})),
    ("Brier score for NLL", Setting("ac", {"objectives": ("brier", "cwece")})),
)


def ranking_value(pool: Pool) -> Table:
    """ac-nc minus choices that do not rank, also where there is something to rank."""
    choice = pool.columns("ac-nc")["eligible"] > 1
    groups = [
        Group((name,), scope.role, keep)
        for scope in pool.scopes()
        for name, keep in (("all", scope.keep), ("|Θ| > 1", scope.keep & choice))
        if keep.any()
    ]
    pairs = [Pair((f"ac-nc − {rule}",), "ac-nc", rule) for rule in ("ac-mean", "pure-nll")]
    return table(
        "ranking-value",
        "ac-nc − the mean of its feasible set, and − unconstrained NLL",
        ("among", "contrast"),
        changes(pool, pairs, MAIN, groups),
        note="ac-mean leaves the best accuracy just as ac-nc does, but without ranking.",
        signed=True,
    )


def sensitivity(pool: Pool) -> Table:
    """Variants of ac-nc − ac-nc, and in how many runs the choice changes."""
    carried = pool.trajectory(pool.keys[0]).metrics
    variants = [
        (name, variant)
        for name, variant in SENSITIVITY
        if set(variant.params.get("objectives", ())) <= set(carried)
    ]
    pairs = [Pair((name,), variant, "ac-nc") for name, variant in variants]
    cells = list(changes(pool, pairs, MAIN, pool.scopes()))
    usual = pool.columns("ac-nc")["step"]
    for scope in pool.scopes():
        for name, variant in variants:
            moved = (pool.columns(variant)["step"] != usual)[scope.keep]
            count = float(moved.sum())
            cells.append(Cell((name,), "choices_changed", count, len(moved), scope.role))
    return table(
        "sensitivity",
        "Variants of ac-nc − ac-nc, paired by run",
        ("variant",),
        cells,
        note="With two feasible checkpoints of opposed order, η decides by the raw ranges.",
        signed=True,
    )


def regrets(pool: Pool) -> Table:
    """Mean shortfall to the best checkpoint in hindsight."""
    rules: tuple[Rule, ...] = ("source-acc", "ac-nc", "ac-mean", "pure-nll")
    oracles: tuple[tuple[str, Among], ...] = (("any checkpoint", "all"), ("in Θ", "feasible"))
    groups = [
        *pool.groups(["dataset"]),
        *(Group(("all",), scope.role, scope.keep) for scope in pool.scopes()),
    ]
    cells = []
    for measure in MAIN:
        metric = measure.removeprefix("target_")
        for name, among in oracles:
            for rule in rules:
                lost = regret(pool, rule, metric, among)
                for group in groups:
                    values = lost[group.keep & np.isfinite(lost)]
                    mean = float(values.mean()) if len(values) else float("nan")
                    row = (*group.labels, name, label(rule))
                    factor = METRICS[metric].scale
                    n = len(values)
                    cells.append(
                        Cell(row, f"regret_{metric}", factor * mean, n, group.role, factor)
                    )
                    if metric == "nll":
                        median = float(np.median(values)) if n else float("nan")
                        cells.append(Cell(row, "regret_nll_median", median, n, group.role))
    return table(
        "regret",
        "Shortfall to the best checkpoint in hindsight (not deployable: it looks at the target)",
        ("dataset", "oracle", "rule"),
        cells,
        note="pure-nll may lie outside Θ, and then its shortfall to the best in Θ can be negative.",
    )
