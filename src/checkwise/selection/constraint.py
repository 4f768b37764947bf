"""The constraint of an AC rule: which score has to be near its best, and how near.

For accuracy the tolerance is ``delta_pp``, in points. For any score it can be ``delta``: a share of
the best value (``"0.5%"``) or an amount in the score's own units (``0.005``; an accuracy is a
fraction, so that is half a point).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, TypeAlias

from checkwise.errors import InputError
from checkwise.metrics import error_level
from checkwise.words import shown

Points: TypeAlias = float | str | Decimal | Fraction  # percentage points

ACCURACY = "accuracy"
# Of accuracy; more is meant in points, or in percent.
LARGEST_FRACTION = Fraction(2, 5)
# Parameters that `params` lists only where they are set.
CONSTRAINT_PARAMS = ("constraint", "delta")
_LARGEST_EXPONENT = 30  # exact fractions of larger decimals would fill the memory


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


def tolerance(delta_pp: Points) -> Fraction:
    """The tolerance δ in points, exactly."""
    delta = decimal(delta_pp, "delta_pp")
    if delta < 0:
        raise InputError(f"Expected delta_pp of 0 or more points, but got {delta_pp}.")
    return delta


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
    # Above 100% the edge would move back while the best improves.
    if amount < 0 or (relative and amount > 100):
        most = " and up to 100%" if relative else ""
        raise InputError(f"Expected delta of 0 or more{most}, but got {shown(delta)}.")
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
    in_points, asked = "delta_pp" in params, "delta" in params
    if constraint != ACCURACY and (in_points or not asked):
        got = "delta_pp is in points of accuracy" if in_points else "got none"
        raise InputError(
            f"Expected how far from the best {constraint} a checkpoint may be, but {got}: use "
            f"--delta 0.5% (of the best {constraint}) or --delta 0.005 (in its own units), in "
            'Python delta="0.5%" or delta=0.005.',
            code="value" if in_points else "missing",
        )
    if in_points and asked:
        raise InputError(
            f"Expected one tolerance, but got delta_pp {params['delta_pp']} and delta "
            f"{params['delta']}: leave out one of them.",
            code="ambiguous",
        )
    delta = read_delta(params["delta"]) if asked else None
    if delta and constraint == ACCURACY and not delta.relative and delta.amount > LARGEST_FRACTION:
        raise InputError(
            f"Expected delta of accuracy as a fraction up to {float(LARGEST_FRACTION)}, or in "
            f"percent of the best, but got {shown(params['delta'])}: half a point is 0.005, or "
            "delta_pp 0.5."
        )


ALPHA: Final = 0.05
# What counts as near the best: name → what it keeps, as `checkwise rules` and help texts say it.
TOLERANCES: Final = {
    "fixed": "at most delta below the best measured accuracy",
    "paired": "not shown to be worse than the best by more than delta",
}
# Options of `select` that say which tolerance.
TOLERANCE_OPTIONS: Final = ("tolerance", "alpha")


@dataclass(frozen=True)
class ToleranceKind:
    """How it is decided which checkpoints are near the best: one of ``TOLERANCES``.

    ``alpha`` is the level of ``paired``; ``fixed`` has none.

    A checkpoint that was left out stays out, whatever is recorded later. ``fixed``: the best only
    rises. ``paired``: evidence against a checkpoint is a sum with one part per other checkpoint. A
    later record adds a part of 0 or more and changes none, so the sum never falls below the edge
    again. The k-th record gets 6α/(π²k²) of α, so that their number need not be known.
    """

    name: str = "fixed"
    alpha: float = ALPHA

    @classmethod
    def of(cls, name: str | None, alpha: float | None) -> ToleranceKind:
        """The kind that a user named; fixed where there is no name."""
        name = "fixed" if name is None else name
        if not isinstance(name, str) or name not in TOLERANCES:
            raise InputError(
                f"Expected the tolerance to be one of {', '.join(TOLERANCES)}, but got "
                f"{shown(name)}.",
                code="unknown",
            )
        if alpha is None:
            return cls(name)
        if name == "fixed":
            raise InputError(
                f"Expected no alpha with tolerance {name!r}, which has no level, but got "
                f"{shown(alpha)}: leave it out.",
                code="unsupported",
            )
        return cls(name, error_level(alpha))

    @property
    def fixed(self) -> bool:
        """Whether accuracies alone decide."""
        return self.name == "fixed"

    def as_dict(self) -> dict[str, Any]:
        """As ``select`` takes it and as JSON and journals hold it; nothing where it is fixed."""
        return {} if self.fixed else {"tolerance": self.name, "alpha": self.alpha}
