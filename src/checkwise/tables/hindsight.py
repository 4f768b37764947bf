"""How far a rule is from the best checkpoint in hindsight. The oracle cannot be deployed."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from checkwise.metrics import METRICS
from checkwise.selection import select_many
from checkwise.study.pool import Group, Pool, Row, label
from checkwise.tables.means_and_changes import MAIN, mean_or_nan
from checkwise.tables.table import Cell, Table, table

FloatArray = NDArray[np.float64]
Among = Literal["all", "feasible"]


def oracle(pool: Pool, metric: str, among: Among = "all") -> FloatArray:
    """The best target value of any checkpoint, or of any feasible one, per run (fractions)."""
    runs = {key: pool.trajectory(key) for key in pool.keys}
    selections = select_many(runs, "ac-nc", guard=False) if among == "feasible" else {}
    best = np.full(len(pool), np.nan)
    higher = METRICS[metric].direction == "higher"
    for i, key in enumerate(pool.keys):
        values = pool.target(key)[metric]
        values = values[selections[key].ranking.eligible] if among == "feasible" else values
        values = values[np.isfinite(values)]
        if len(values):
            best[i] = values.max() if higher else values.min()
    return best


def regret(pool: Pool, rule: Row, metric: str, among: Among = "all") -> FloatArray:
    """How far the rule's choice falls short of the oracle's, per run (fractions).

    It is negative only where the rule chose outside of what the oracle looked at.

    Args:
        pool: the runs.
        rule: whose choices.
        metric: ``nll``, ``accuracy`` …, on the target.
        among: the oracle looks at all checkpoints, or at the feasible ones only.
    """
    chosen, best = pool.columns(rule)[f"target_{metric}"], oracle(pool, metric, among)
    return best - chosen if METRICS[metric].direction == "higher" else chosen - best


def regrets(pool: Pool) -> Table:
    """Mean shortfall to the best checkpoint in hindsight."""
    rules: tuple[Row, ...] = ("source-acc", "ac-nc", "ac-mean", "pure-nll")
    oracles: tuple[tuple[str, Among], ...] = (("any checkpoint", "all"), ("in Θ", "feasible"))
    groups = [
        *pool.groups(["dataset"]),
        *(Group(("all",), group.role, group.keep) for group in pool.by_role()),
    ]
    cells = []
    for measure in MAIN:
        metric = measure.removeprefix("target_")
        for name, among in oracles:
            for rule in rules:
                shortfall = regret(pool, rule, metric, among)
                for group in groups:
                    values = shortfall[group.keep & np.isfinite(shortfall)]
                    mean = mean_or_nan(values)
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
