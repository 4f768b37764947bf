"""How differences spread over runs: wins, ties, losses, and how large the losses are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

POINT = 1.0
# Means over held-out domains carry rounding: a smaller difference counts as a tie.
SLACK = 1e-12
# Exactly one point is a loss of one point, whatever rounding says.
EDGE = 1e-9
TRIM = 0.05


@dataclass(frozen=True)
class Spread:
    """Counts of runs, and the tail of the losses on the scale of the differences.

    Args:
        n, wins, ties, losses: runs where the rule is better, equal, worse.
        lose_point: runs that are worse by at least one point.
        tail: the 5th percentile of the differences, counted from the worse side.
        worst: the largest loss (negative where the rule is worse).
    """

    n: int
    wins: int
    ties: int
    losses: int
    lose_point: int
    tail: float
    worst: float


def spread(values: FloatArray, *, higher_is_better: bool) -> Spread:
    """Count the runs; ``values`` [n] are rule − reference.

    Example:
        >>> spread(np.array([2.0, -1.0, 0.0, 0.5]), higher_is_better=True).lose_point
        1
    """
    better = np.asarray(values, dtype=np.float64) * (1 if higher_is_better else -1)
    return Spread(
        n=len(better),
        wins=int((better > SLACK).sum()),
        ties=int((np.abs(better) <= SLACK).sum()),
        losses=int((better < -SLACK).sum()),
        lose_point=int((better <= -POINT + EDGE).sum()),
        tail=float(np.percentile(better, 5)) if len(better) else float("nan"),
        worst=float(better.min()) if len(better) else float("nan"),
    )


def trimmed_mean(values: FloatArray) -> float:
    """The mean without the lowest and highest 5% of values (rounded down); nan of nothing."""
    n = len(values)
    cut = int(TRIM * n)
    return float(np.sort(values)[cut : n - cut].mean()) if n else float("nan")
