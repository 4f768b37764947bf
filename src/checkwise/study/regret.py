"""How far a rule is from the best checkpoint in hindsight. The oracle cannot be deployed."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from checkwise.metrics import METRICS
from checkwise.selection import select_many
from checkwise.study.pool import Pool, Rule

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
