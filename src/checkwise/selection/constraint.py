"""The constraint of an AC rule: which score has to be near its best, and how near.

For accuracy the tolerance is ``delta_pp``, in points. For any score it can be ``delta``: a share of
the best value (``"0.5%"``) or an amount in the score's own units (``0.005``; an accuracy is a
fraction, so that is half a point).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from checkwise.errors import InputError
from checkwise.selection.standing import Points, decimal, tolerance
from checkwise.text import shown

ACCURACY = "accuracy"
# Of accuracy; more is meant in points, or in percent.
LARGEST_FRACTION = Fraction(2, 5)
# Parameters that `params` lists only where they are set.
CONSTRAINT_PARAMS = ("constraint", "delta")


@dataclass(frozen=True)
class Tolerance:
    """How far from the best value a checkpoint may be: a share of it, or an amount."""

    amount: Fraction
    relative: bool

    def allowed(self, best: Fraction) -> Fraction:
        """The tolerance in the score's own units."""
        return self.amount * abs(best) if self.relative else self.amount


def read_delta(delta: object) -> Tolerance:
    """The tolerance that a user wrote.

    Example:
        >>> read_delta("0.5%")
        Tolerance(amount=Fraction(1, 200), relative=True)
        >>> read_delta(0.005)
        Tolerance(amount=Fraction(1, 200), relative=False)
    """
    text = delta.strip() if isinstance(delta, str) else delta
    relative = isinstance(text, str) and text.endswith("%")
    amount = decimal(str(text)[:-1].strip() if relative else text, "delta")
    if amount < 0:
        raise InputError(f"Expected delta of 0 or more, but got {shown(delta)}.")
    # Above 100% the edge would move back while the best improves.
    if relative and amount > 100:
        raise InputError(f"Expected delta between 0% and 100%, but got {shown(delta)}.")
    return Tolerance(amount / 100 if relative else amount, relative)


def tolerance_of(delta_pp: Points, delta: str | float | None) -> Tolerance:
    """``delta`` where it is set, else ``delta_pp`` of accuracy."""
    return Tolerance(tolerance(delta_pp) / 100, False) if delta is None else read_delta(delta)


def check_constraint(params: Mapping[str, Any]) -> None:
    """Refuse a tolerance that does not fit the constraint. ``params`` holds what was set."""
    constraint = params.get("constraint", ACCURACY)
    if not isinstance(constraint, str) or not constraint:
        raise InputError(
            f"Expected the constraint as the name of a score, but got {shown(constraint)}."
        )
    if "delta_pp" in params and constraint != ACCURACY:
        raise InputError(
            f"Expected a tolerance of {constraint}, but delta_pp is in points of accuracy: "
            f"{_use_delta(constraint)}."
        )
    if "delta_pp" in params and "delta" in params:
        raise InputError(
            f"Expected one tolerance, but got delta_pp {params['delta_pp']} and delta "
            f"{params['delta']}: leave out one of them.",
            code="ambiguous",
        )
    if "delta" not in params:
        if constraint != ACCURACY:
            raise InputError(
                f"Expected how far from the best {constraint} a checkpoint may be, but got no "
                f"tolerance: {_use_delta(constraint)}.",
                code="missing",
            )
        return
    asked = read_delta(params["delta"])
    if constraint == ACCURACY and not asked.relative and asked.amount > LARGEST_FRACTION:
        raise InputError(
            f"Expected delta of accuracy as a fraction up to {float(LARGEST_FRACTION)}, or in "
            f"percent of the best, but got {shown(params['delta'])}: half a point is 0.005, or "
            "delta_pp 0.5."
        )


def _use_delta(constraint: str) -> str:
    return (
        f"use --delta 0.5% (of the best {constraint}) or --delta 0.005 (in its own units), in "
        'Python delta="0.5%" or delta=0.005'
    )
