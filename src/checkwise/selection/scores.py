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
from checkwise.selection.standing import (
    BoolArray,
    FloatArray,
    IntArray,
    dense_order,
    nearest_float,
)

SLACK = Fraction(1, 10**11)


@dataclass(frozen=True)
class ScoreStanding:
    """One score of one run's checkpoints, in order.

    Args:
        values: the score, [T].
        best: the best value of a checkpoint that did not diverge.
        gap: how much worse than the best, 0 or more, [T]; nan for diverged checkpoints.
        order: dense rank, 0 for the best value, equal where values are equal, [T].
        direction: whether higher or lower is better.
    """

    values: FloatArray
    best: Fraction
    gap: FloatArray
    order: IntArray
    direction: Direction
    _diverged: BoolArray

    def near_best(self, asked: Tolerance) -> BoolArray:
        """The feasible set: not diverged, and no further from the best than the tolerance."""
        size, allowed = abs(self.best), asked.allowed(self.best)
        with_slack = allowed + SLACK * (size + allowed)
        if asked.relative:
            # Up to 100%, the edge only moves towards better values while the best improves.
            with_slack = min(with_slack, size)
        # An exact edge that is rounded once cannot move back, as sums of floats may by a bit.
        with np.errstate(invalid="ignore"):
            if self.direction == "higher":
                near = self.values >= nearest_float(self.best - with_slack)
            else:
                near = self.values <= nearest_float(self.best + with_slack)
        return np.asarray(near, dtype=bool) & ~self._diverged


def score_standing(values: FloatArray, diverged: BoolArray, direction: Direction) -> ScoreStanding:
    """Compare checkpoints by a score, higher or lower being better."""
    quality = values if direction == "higher" else -values
    best = float(quality[~diverged].max())
    return ScoreStanding(
        values=values,
        best=Fraction(best if direction == "higher" else -best),
        gap=np.where(diverged, np.nan, best - quality),
        order=dense_order(quality, diverged, float(SLACK) * abs(best)),
        direction=direction,
        _diverged=diverged,
    )
