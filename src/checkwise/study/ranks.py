"""Source–target rank agreement of a pool's runs, over all checkpoints and inside Θ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkwise.records import RunKey
from checkwise.selection import select_many
from checkwise.selection.constrained import distance, rescale
from checkwise.selection.table import view_of
from checkwise.study.agreement import kendall, spearman
from checkwise.study.pool import Pool
from checkwise.study.transfer import Transfer, transfer

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

METRICS = ("accuracy", "nll", "ece", "cwece")
OBJECTIVES = ("nll", "cwece")
SMALLEST = 3


@dataclass(frozen=True)
class LocalRanks:
    """Rank correlations inside Θ of one run; nan where they are not valid.

    A run is valid with at least three feasible checkpoints and none of the four vectors constant:
    source and target accuracy, source and target utility (−D∞ of NLL and CwECE normalised inside Θ
    on its own side).
    """

    checkpoints: int
    valid: bool
    accuracy_rho: float
    accuracy_tau: float
    utility_rho: float
    utility_tau: float


def all_checkpoints(pool: Pool) -> dict[str, FloatArray]:
    """Kendall's τ_b of source and target over every checkpoint, metric → [runs]."""
    found = {metric: np.full(len(pool), np.nan) for metric in METRICS}
    for i, key in enumerate(pool.keys):
        source, target = view_of(pool.trajectory(key), "equal", False).columns, pool.target(key)
        for metric in METRICS:
            if metric in source and metric in target:
                both = np.isfinite(source[metric]) & np.isfinite(target[metric])
                found[metric][i] = kendall(source[metric][both], target[metric][both])
    return found


def inside_feasible(pool: Pool) -> dict[RunKey, LocalRanks]:
    """Rank correlations inside the feasible set at δ = 0.5."""
    runs = {key: pool.trajectory(key) for key in pool.keys}
    chosen = select_many(runs, "ac-nc")
    return {key: _local(pool, key, selection.ranking.eligible) for key, selection in chosen.items()}


def _local(pool: Pool, key: RunKey, feasible: BoolArray) -> LocalRanks:
    source, target = view_of(pool.trajectory(key), "equal", False).columns, pool.target(key)
    size = int(feasible.sum())
    sides = [
        {name: np.asarray(side[name][feasible]) for name in ("accuracy", *OBJECTIVES)}
        for side in (source, target)
    ]
    vectors = [sides[0]["accuracy"], sides[1]["accuracy"], *(_utility(side) for side in sides)]
    usable = all(np.isfinite(v).all() and np.ptp(v) > 0 for v in vectors)
    if size < SMALLEST or not usable:
        nan = float("nan")
        return LocalRanks(size, False, nan, nan, nan, nan)
    accuracy, utility = vectors[:2], vectors[2:]
    return LocalRanks(
        size,
        True,
        spearman(*accuracy),
        float(kendall(*accuracy)),
        spearman(*utility),
        float(kendall(*utility)),
    )


def _utility(side: dict[str, FloatArray]) -> FloatArray:
    errors = np.stack([side[name] for name in OBJECTIVES])
    return -distance(rescale(errors, np.ones(errors.shape[1], dtype=bool)), np.inf)


def transfers(pool: Pool, metric: str) -> dict[RunKey, Transfer]:
    """Ordering transfer of one metric over every checkpoint of every run."""
    sign = 1.0 if metric == "accuracy" else -1.0
    found = {}
    for key in pool.keys:
        source, target = view_of(pool.trajectory(key), "equal", False).columns, pool.target(key)
        both = np.isfinite(source[metric]) & np.isfinite(target[metric])
        found[key] = transfer(sign * source[metric][both], sign * target[metric][both])
    return found
