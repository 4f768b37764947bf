"""Risk–coverage curves: the error rate among the most confident predictions, at every coverage.

One threshold compares checkpoints at different coverages; the curve compares them at every one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError

FloatArray = NDArray[np.float64]
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
        """Error rate at a coverage, interpolated."""
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
    if u.shape != right.shape or u.ndim != 1 or not len(u):
        raise InputError(
            f"Expected one confidence and one True or False per example, but got shapes {u.shape} "
            f"and {right.shape}."
        )
    order = np.argsort(-u, kind="stable")
    wrong = np.cumsum(~right[order])
    last = np.append(u[order][1:] != u[order][:-1], True)
    ends = np.flatnonzero(last)
    risk = wrong[ends] / (ends + 1)
    widths = np.diff(np.concatenate([[-1], ends]))
    return RiskCoverage((ends + 1) / len(u), risk, float((risk * widths).sum() / len(u)))
