"""How much each source domain counts."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from checkwise.errors import InputError
from checkwise.records import Trajectory
from checkwise.text import shown

Weights = str | Mapping[str, float]

LARGEST_EXPONENT = 30  # exact fractions of larger decimals would fill the memory


def decimal(value: object, what: str) -> Fraction:
    """The decimal a user wrote, exactly: 0.5 is 1/2 and 0.1 is 1/10, not the nearest float."""
    if isinstance(value, Fraction):
        return value
    try:
        number = None if isinstance(value, bool) else Decimal(str(value))
    except (ArithmeticError, ValueError):  # no number, or an integer of thousands of digits
        number = None
    if number is None or not number.is_finite():
        raise InputError(f"Expected {what} as a number, but got {shown(value)}.")
    too_fine = len(number.as_tuple().digits) > 2 * LARGEST_EXPONENT
    if number and (abs(number.adjusted()) > LARGEST_EXPONENT or too_fine):
        raise InputError(f"Expected {what} of a sensible size, but got {shown(value, 40)}.")
    return Fraction(number)


def check_weighting(weights: Weights, worst_domain: bool) -> None:
    """Refuse what is no weighting, and weights where the worst domain decides: it has none."""
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
            f"Expected equal weights where the worst domain decides, but got {shown(weights)}: the "
            "minimum over domains has no weights; leave out the weights or the worst domain."
        )


def domain_weights(trajectory: Trajectory, weights: Weights) -> tuple[Fraction, ...]:
    """One weight per domain, adding up to 1.

    Args:
        weights: "equal", "sample" (by number of examples), or a weight for every domain by name.
    """
    names = trajectory.domains
    if weights == "equal":
        return (Fraction(1, len(names)),) * len(names)
    if weights == "sample":
        if trajectory.counts is None:
            raise InputError(
                "Weights 'sample' need the number of examples per domain, which this run does "
                "not carry: add a column `n`, or use weights 'equal'."
            )
        total = int(trajectory.counts.sum())
        return tuple(Fraction(n, total) for n in trajectory.counts.tolist())
    if not isinstance(weights, Mapping):
        raise InputError(
            f"Expected weights 'equal', 'sample' or a weight per domain, but got {shown(weights)}."
        )
    if set(weights) != set(names):
        raise InputError(
            f"Expected a weight for each of {', '.join(names)}, but got "
            f"{', '.join(map(str, weights)) or 'none'}."
        )
    given = [decimal(weights[name], f"the weight of {name!r}") for name in names]
    total_weight = sum(given, Fraction(0))
    if min(given) < 0 or total_weight == 0:
        raise InputError(
            f"Expected weights of 0 or more that are not all 0, but got {shown(weights)}."
        )
    return tuple(weight / total_weight for weight in given)
