"""How the checkpoints of a run stand by a score that is no accuracy.

Such scores come without counts, so they are compared as floats. The edge of the tolerance allows
1e-11 of the best value and of the tolerance: what 1e-9 points are to an accuracy near 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from checkwise.metrics.registry import Direction
from checkwise.selection.constraint import Tolerance
from checkwise.selection.standing import SLACK_PP, BoolArray, FloatArray, IntArray, dense_order

SLACK = SLACK_PP / 100


@dataclass(frozen=True)
class ScoreStanding:
    """One score of one run's checkpoints, in order.

    Args:
        values: the score, [T].
        best: the best value of a checkpoint that did not diverge.
        gap: how much worse than the best, 0 or more, [T]; nan for diverged checkpoints.
        order: dense rank, 0 for the best value, equal where values are equal, [T].
    """

    values: FloatArray
    best: Fraction
    gap: FloatArray
    order: IntArray
    _diverged: BoolArray

    def near_best(self, asked: Tolerance) -> BoolArray:
        """The feasible set: not diverged, and no further from the best than the tolerance."""
        size, allowed = abs(float(self.best)), float(asked.allowed(self.best))
        with_slack = allowed + SLACK * (size + allowed)
        near = ~self._diverged
        if asked.relative:
            # Up to 100%, the edge only moves towards better values while the best improves. It
            # never crosses 0, which a rounded gap would not show.
            with_slack = min(with_slack, size)
            best = 0 if not self.best else 1 if self.best > 0 else -1
            near &= (np.sign(self.values) == best) | ((self.values == 0) & (asked.amount == 1))
        with np.errstate(invalid="ignore"):
            return np.asarray(self.gap <= with_slack, dtype=bool) & near


def score_standing(values: FloatArray, diverged: BoolArray, direction: Direction) -> ScoreStanding:
    """Compare checkpoints by a score, higher or lower being better."""
    quality = values if direction == "higher" else -values
    best = float(quality[~diverged].max())
    return ScoreStanding(
        values=values,
        best=Fraction(best if direction == "higher" else -best),
        gap=np.where(diverged, np.nan, best - quality),
        order=dense_order(quality, diverged, SLACK * abs(best)),
        _diverged=diverged,
    )
