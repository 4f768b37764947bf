"""How runs and examples spread: wins and losses, trimmed means, risk at every coverage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkwise.study.inference.clusters import FloatArray

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """Distinct coverages, increasing, and the error rate among the predictions covered.

    ``area`` is the mean error rate over all coverages 1/n … 1, examples of equal confidence
    sharing theirs; smaller is better.
    """

    coverage: FloatArray
    risk: FloatArray
    area: float

    def at(self, coverage: float) -> float:
        return float(np.interp(coverage, self.coverage, self.risk))


def risk_coverage(confidence: FloatArray, correct: BoolArray) -> RiskCoverage:
    """The curve of n predictions; equally confident ones enter together.

    Example:
        >>> right = np.array([True, True, False, True])
        >>> curve = risk_coverage(np.array([0.9, 0.8, 0.7, 0.7]), right)
        >>> curve.coverage.tolist(), curve.risk.tolist()
        ([0.25, 0.5, 1.0], [0.0, 0.0, 0.25])
    """
    u, right = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=bool)
    order = np.argsort(-u, kind="stable")
    wrong = np.cumsum(~right[order])
    last = np.append(u[order][1:] != u[order][:-1], True)
    ends = np.flatnonzero(last)
    risk = wrong[ends] / (ends + 1)
    widths = np.diff(np.concatenate([[-1], ends]))
    return RiskCoverage((ends + 1) / len(u), risk, float((risk * widths).sum() / len(u)))


POINT = 1.0
# Means over held-out domains carry rounding: a smaller difference counts as a tie.
SLACK = 1e-12
# Exactly one point is a loss of one point, whatever rounding says.
EDGE = 1e-9
TRIM = 0.05


@dataclass(frozen=True)
class Spread:
    """Counts of runs, and the tail of the losses on the scale of the differences."""

    n: int  # runs where the rule is better, equal, worse
    wins: int
    ties: int
    losses: int
    lose_point: int  # runs that are worse by at least one point
    tail: float  # the 5th percentile of the differences, counted from the worse side
    worst: float  # the largest loss (negative where the rule is worse)


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
