"""How the checkpoints of a run stand by one score, compared exactly wherever that is possible.

With counts, mean accuracies are whole numbers over a common denominator, so the maximum, the edge
of the tolerance and ties do not depend on rounding. Without counts the edge of accuracies allows
1e-9 points. Other scores come without counts; their edge allows 1e-11 of the best value and of the
tolerance: what 1e-9 points are to an accuracy near 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, floor, fsum, inf, lcm
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.metrics import Direction
from checkwise.records import Trajectory
from checkwise.selection.constraint import ACCURACY, Tolerance, decimal
from checkwise.words import shown

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Weights: TypeAlias = str | Mapping[str, float]

SLACK = Fraction(1, 10**11)
_LARGEST_UNIT = 2**62


def check_weights(weights: Weights) -> None:
    """Refuse what does not say how domains count."""
    named = isinstance(weights, str) and weights in ("equal", "sample")
    if not (named or isinstance(weights, Mapping)):
        raise InputError(
            f"Expected weights 'equal', 'sample' or a weight per domain, but got {shown(weights)}."
        )


def domain_weights(trajectory: Trajectory, weights: Weights) -> tuple[Fraction, ...]:
    """One weight per domain, adding up to 1: "equal", by "sample" size, or as they are given.

    A weight for a domain that the run holds out is ignored.
    """
    check_weights(weights)
    names = trajectory.domains
    if weights == "equal":
        return (Fraction(1, len(names)),) * len(names)
    if isinstance(weights, str):
        if trajectory.counts is None:
            raise InputError(
                "Expected the number of examples per domain for weights 'sample', but this run has "
                "none: add a column `n`, or use weights 'equal'.",
                code="missing",
            )
        total = int(trajectory.counts.sum())
        return tuple(Fraction(n, total) for n in trajectory.counts.tolist())
    held_out = trajectory.key.held_out if trajectory.key is not None else ()
    if set(weights) - set(held_out) != set(names):
        raise InputError(
            f"Expected a weight for each of {', '.join(names)}, but got "
            f"{', '.join(map(str, weights)) or 'none'}."
        )
    exact = [decimal(weights[name], f"the weight of {name!r}") for name in names]
    total_weight = sum(exact, Fraction(0))
    if min(exact) < 0 or total_weight == 0:
        raise InputError(
            f"Expected weights of 0 or more that are not all 0, but got {shown(weights)}."
        )
    return tuple(weight / total_weight for weight in exact)


def weighted_mean(values: FloatArray, shares: tuple[Fraction, ...]) -> FloatArray:
    """Σ_e w_e·m_e per row; ``fsum`` rounds once, so the order of domains cannot matter."""
    if len(shares) == 1:
        return values[:, 0] + 0.0
    if len(set(shares)) == 1:
        return np.array([fsum(row) / len(row) for row in values.tolist()])
    floats = [float(share) for share in shares]
    return np.array(
        [fsum(w * v for w, v in zip(floats, row, strict=True)) for row in values.tolist()]
    )


@dataclass(frozen=True)
class Standing:
    """One score of one run's checkpoints, [T]."""

    units: NDArray[Any]  # as larger is better: whole numbers over the denominator, or floats
    diverged: BoolArray  # checkpoints that are not compared
    denominator: int | None = None  # None for floats
    direction: Direction = "higher"  # of the score; its units are negated where lower is better
    by_points: bool = True  # accuracy, whose slack is an amount and no share

    @cached_property
    def _top(self) -> Any:
        return self.units[~self.diverged].max()

    @cached_property
    def _highest(self) -> Fraction:
        if self.denominator is not None:
            return Fraction(int(self._top), self.denominator)
        return Fraction(float(self._top))

    @property
    def best(self) -> Fraction:
        """The best value of a checkpoint that did not diverge."""
        return self._highest if self.direction == "higher" else -self._highest

    @cached_property
    def order(self) -> IntArray:
        """Dense rank, 0 for the best value, equal where values are equal but for the slack, [T]."""
        slack = float(SLACK)
        if self.denominator is not None:
            slack = 0
        elif not self.by_points:
            slack *= abs(float(self._top))
        order = np.full(len(self.units), len(self.units), dtype=np.int64)
        there = np.flatnonzero(~self.diverged)
        sequence = there[np.argsort(-self.units[there], kind="stable")]
        rank, head = -1, inf
        for t, value in zip(sequence.tolist(), self.units[sequence].tolist(), strict=True):
            if value < head - slack:
                rank, head = rank + 1, value
            order[t] = rank
        return order

    def near(self, asked: Tolerance) -> BoolArray:
        """The feasible set: not diverged, and no further from the best than the tolerance."""
        allowed = asked.allowed(self.best)
        if self.denominator is not None:
            near = self._top - self.units <= floor(allowed * self.denominator)
        else:
            # An exact edge that is rounded once cannot move back, as sums of floats may by a bit.
            edge = nearest_float(self._highest - self._with_slack(allowed, asked.relative))
            with np.errstate(invalid="ignore"):
                near = self.units >= edge
        return np.asarray(near, dtype=bool) & ~self.diverged

    def _with_slack(self, allowed: Fraction, relative: bool) -> Fraction:
        if self.by_points:
            return allowed + SLACK
        size = abs(self._highest)
        wider = allowed + SLACK * (size + allowed)
        # Up to 100%, the edge only moves towards better values while the best improves.
        return min(wider, size) if relative else wider

    def at_least(self, threshold_pp: Fraction) -> BoolArray:
        """Not diverged and at or above an absolute accuracy in points."""
        if self.denominator is not None:
            # Products of units and a long decimal's denominator would not fit into 64 bits.
            reached = self.units >= ceil(threshold_pp * self.denominator / 100)
        else:
            reached = self.units >= float(threshold_pp) / 100 - float(SLACK)
        return np.asarray(reached, dtype=bool) & ~self.diverged

    @cached_property
    def accuracy(self) -> FloatArray:
        """Accuracies as fractions, [T]; nan for diverged checkpoints."""
        accuracy = np.asarray(self.units / (self.denominator or 1), dtype=np.float64)
        return np.where(self.diverged, np.nan, accuracy)

    @cached_property
    def gap_pp(self) -> FloatArray:
        """Points of accuracy below the best, [T]; nan for diverged checkpoints."""
        gap = np.asarray(100 * (self._top - self.units) / (self.denominator or 1), dtype=np.float64)
        return np.where(self.diverged, np.nan, gap)

    def taken(self, rows: Any) -> Standing:
        """The same of some of the checkpoints."""
        return replace(self, units=self.units[rows], diverged=self.diverged[rows])


def nearest_float(exact: Fraction) -> float:
    """The float nearest to a fraction, infinite where there is none; it keeps their order."""
    try:
        return float(exact)
    except OverflowError:
        return inf if exact > 0 else -inf


def by_score(values: FloatArray, diverged: BoolArray, direction: Direction) -> Standing:
    """Compare checkpoints by a score that is no accuracy."""
    units = values if direction == "higher" else -values
    return Standing(units, diverged, direction=direction, by_points=False)


def in_whole_numbers(
    run: Trajectory, counts: Sequence[int], weights: Weights, worst_domain: bool
) -> tuple[int, list[int]]:
    """A denominator of mean accuracies, and what a correct answer in each domain adds over it."""
    weight = (Fraction(1),) * len(counts) if worst_domain else domain_weights(run, weights)
    each = [w / n for w, n in zip(weight, counts, strict=True)]
    denominator = lcm(*(share.denominator for share in each))
    return denominator, [int(share * denominator) for share in each]


def by_accuracy(run: Trajectory, weights: Weights, worst_domain: bool) -> Standing:
    """Compare the checkpoints of a run by mean accuracy, or by that of their worst domain."""
    if run.correct is None or run.counts is None:
        accuracy = np.where(run.diverged[:, None], 0.0, run.values[ACCURACY])
        shares = () if worst_domain else domain_weights(run, weights)
        return Standing(
            accuracy.min(axis=1) if worst_domain else weighted_mean(accuracy, shares), run.diverged
        )
    denominator, factors = in_whole_numbers(run, run.counts.tolist(), weights, worst_domain)
    # Gaps multiply units by 100, and sums of them must fit as well.
    fits = denominator < _LARGEST_UNIT // 10**9
    correct = run.correct.astype(np.int64 if fits else object)
    scaled = correct * np.array(factors, dtype=correct.dtype)
    units = scaled.min(axis=1) if worst_domain else scaled.sum(axis=1)
    return Standing(units, run.diverged, denominator)
