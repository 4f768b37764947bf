"""How the checkpoints of a run stand by accuracy, compared exactly.

With counts, mean accuracies are whole numbers over a common denominator, so the maximum, the edge
of the tolerance and ties do not depend on rounding. Without counts the edge allows 1e-9 points.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, fsum, inf, lcm
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.records import Trajectory
from checkwise.words import shown

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Weights: TypeAlias = str | Mapping[str, float]
Points: TypeAlias = float | str | Decimal | Fraction  # percentage points

SLACK_PP = 1e-9
_SLACK = Fraction(1, 10**9)
_LARGEST_EXPONENT = 30  # exact fractions of larger decimals would fill the memory
_LARGEST_UNIT = 2**62


def decimal(value: object, what: str) -> Fraction:
    """The decimal a user wrote, exactly: 0.5 is 1/2 and 0.1 is 1/10, not the nearest float."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,40}/[1-9][0-9]{0,39}", value):
        return Fraction(value)  # as a journal writes what was given as a fraction
    try:
        number = None if isinstance(value, bool) else Decimal(str(value))
    except (ArithmeticError, ValueError):  # no number, or an integer of thousands of digits
        number = None
    if number is None or not number.is_finite():
        raise InputError(f"Expected {what} as a number, but got {shown(value)}.")
    too_fine = len(number.as_tuple().digits) > 2 * _LARGEST_EXPONENT
    if number and (abs(number.adjusted()) > _LARGEST_EXPONENT or too_fine):
        raise InputError(f"Expected {what} of a sensible size, but got {shown(value, 40)}.")
    return Fraction(number)


def nearest_float(exact: Fraction) -> float:
    """The float nearest to a fraction, infinite where there is none; it keeps their order.

    Example:
        >>> nearest_float(Fraction(1, 3)), nearest_float(Fraction(-(10**400)))
        (0.3333333333333333, -inf)
    """
    try:
        return float(exact)
    except OverflowError:
        return inf if exact > 0 else -inf


def tolerance(delta_pp: Points) -> Fraction:
    """The tolerance δ in points, exactly."""
    delta = decimal(delta_pp, "delta_pp")
    if delta < 0:
        raise InputError(f"Expected delta_pp of 0 or more points, but got {delta_pp}.")
    return delta


def check_weighting(weights: Weights, worst_domain: bool) -> None:
    """Refuse what is not a weighting, and weights together with ``worst_domain``."""
    if not isinstance(weights, str | Mapping):
        raise InputError(
            f"Expected weights 'equal', 'sample' or a weight per domain, but got {shown(weights)}."
        )
    if not isinstance(worst_domain, bool):
        raise InputError(
            f"Expected worst_domain to be true or false, but got {shown(worst_domain)}."
        )
    if worst_domain and weights != "equal":
        raise InputError(
            f"Expected equal weights with worst_domain, but got {shown(weights)}: the worst domain "
            "has no weights; leave out one of the two.",
            code="unsupported",
        )


def domain_weights(trajectory: Trajectory, weights: Weights) -> tuple[Fraction, ...]:
    """One weight per domain, adding up to 1.

    Args:
        weights: "equal", "sample" (by number of examples), or a weight for every domain by name.
            A weight for a domain that the run holds out is ignored.
    """
    names = trajectory.domains
    if weights == "equal":
        return (Fraction(1, len(names)),) * len(names)
    if weights == "sample":
        if trajectory.counts is None:
            raise InputError(
                "Expected the number of examples per domain for weights 'sample', but this run has "
                "none: add a column `n`, or use weights 'equal'.",
                code="missing",
            )
        total = int(trajectory.counts.sum())
        return tuple(Fraction(n, total) for n in trajectory.counts.tolist())
    if not isinstance(weights, Mapping):
        raise InputError(
            f"Expected weights 'equal', 'sample' or a weight per domain, but got {shown(weights)}."
        )
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
    if len(set(shares)) == 1:
        return np.array([fsum(row) / len(row) for row in values.tolist()])
    floats = [float(share) for share in shares]
    return np.array(
        [fsum(w * v for w, v in zip(floats, row, strict=True)) for row in values.tolist()]
    )


@dataclass(frozen=True)
class Standing:
    """Accuracies of one run's checkpoints, in order.

    Args:
        accuracy: mean (or worst-domain) accuracy as a fraction, [T].
        gap_pp: points below the best, [T]; nan for diverged checkpoints.
        order: dense rank, 0 for the best accuracy, equal where accuracies are equal, [T].
        exact: whether counts made every comparison exact.
    """

    accuracy: FloatArray
    gap_pp: FloatArray
    order: IntArray
    exact: bool
    _units: NDArray[Any]
    _denominator: int
    _diverged: BoolArray

    @property
    def best(self) -> Fraction:
        """The best accuracy of a checkpoint that did not diverge, as a fraction."""
        best = self._units[~self._diverged].max()
        return Fraction(int(best), self._denominator) if self.exact else Fraction(float(best))

    def within(self, delta_pp: Fraction) -> BoolArray:
        """The feasible set: not diverged and at most ``delta_pp`` points below the best."""
        best = self._units[~self._diverged].max()
        if self.exact:
            near = best - self._units <= floor(delta_pp * self._denominator / 100)
        else:
            near = self._units >= nearest_float(self.best - (delta_pp + _SLACK) / 100)
        return np.asarray(near, dtype=bool) & ~self._diverged

    def at_least(self, threshold_pp: Fraction) -> BoolArray:
        """Not diverged and at or above an absolute accuracy in points."""
        if self.exact:
            # Products of units and a long decimal's denominator would not fit into 64 bits.
            reached = self._units >= ceil(threshold_pp * self._denominator / 100)
        else:
            reached = self._units >= float(threshold_pp) / 100 - SLACK_PP / 100
        return np.asarray(reached, dtype=bool) & ~self._diverged


def standing(trajectory: Trajectory, weights: Weights, worst_domain: bool) -> Standing:
    """Compare the checkpoints of a run by mean accuracy, or by that of their worst domain."""
    diverged = trajectory.diverged
    units, denominator = _units(trajectory, weights, worst_domain)
    best = units[~diverged].max()
    accuracy = np.asarray(units / denominator, dtype=np.float64)
    gap_pp = np.asarray(100 * (best - units) / denominator, dtype=np.float64)
    exact = trajectory.correct is not None
    return Standing(
        accuracy=np.where(diverged, np.nan, accuracy),
        gap_pp=np.where(diverged, np.nan, gap_pp),
        order=dense_order(units, diverged, 0 if exact else SLACK_PP / 100),
        exact=exact,
        _units=units,
        _denominator=denominator,
        _diverged=diverged,
    )


def _units(
    trajectory: Trajectory, weights: Weights, worst_domain: bool
) -> tuple[NDArray[Any], int]:
    """Accuracy times a common denominator: integers with counts, floats (over 1) without."""
    if trajectory.correct is None or trajectory.counts is None:
        accuracy = np.where(trajectory.diverged[:, None], 0.0, trajectory.values["accuracy"])
        if worst_domain:
            return accuracy.min(axis=1), 1
        shares = domain_weights(trajectory, weights)
        return weighted_mean(accuracy, shares), 1
    counts = trajectory.counts.tolist()
    if worst_domain:
        denominator = lcm(*counts)
        factors = [denominator // n for n in counts]
    else:
        per_example = [
            w / n for w, n in zip(domain_weights(trajectory, weights), counts, strict=True)
        ]
        denominator = lcm(*(share.denominator for share in per_example))
        factors = [int(share * denominator) for share in per_example]
    # Gaps multiply units by 100, and sums of them must fit as well.
    fits = denominator < _LARGEST_UNIT // 10**9
    correct = trajectory.correct.astype(np.int64 if fits else object)
    scaled = correct * np.array(factors, dtype=correct.dtype)
    return (scaled.min(axis=1) if worst_domain else scaled.sum(axis=1)), denominator


def dense_order(units: NDArray[Any], diverged: BoolArray, slack: float) -> IntArray:
    order = np.full(len(units), len(units), dtype=np.int64)
    rank, head = -1, None
    for t in sorted(np.flatnonzero(~diverged).tolist(), key=lambda t: (-units[t], t)):
        if head is None or units[t] < head - slack:
            rank, head = rank + 1, units[t]
        order[t] = rank
    return order
