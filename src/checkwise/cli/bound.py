"""The accuracy bound on the screen: never without its conditions."""

from __future__ import annotations

from collections.abc import Iterable

from checkwise.errors import NoGuaranteeError
from checkwise.selection import Guarantee, Selection

POINTER = "For the accuracy bound and its conditions add --guarantee (docs/guarantees.md)."


def said(selection: Selection, alpha: float) -> str:
    """The bound of one choice in full, or why there is none."""
    statement = bound_of(selection, alpha, paired=True)
    return str(statement) if isinstance(statement, Guarantee) else f"No accuracy bound: {statement}"


def said_of_many(selections: Iterable[Selection], alpha: float) -> str:
    """The bounds of several choices as a range, with the conditions that all of them share."""
    statements = [bound_of(selection, alpha) for selection in selections]
    bounds = [bound for bound in statements if isinstance(bound, Guarantee)]
    if not bounds:
        return f"No accuracy bound: {statements[0]}"
    points = sorted(bound.bound_pp for bound in bounds)
    without = len(statements) - len(bounds)
    return "\n".join(
        [
            f"For each run by itself, with probability at least {1 - alpha:g}, the population "
            f"{bounds[0].quantity} of the chosen checkpoint is at most {points[0]:.2f} to "
            f"{points[-1]:.2f} points below the best of its run (--json has every bound)."
            + (f" {without} of {len(statements)} runs have none." if without else ""),
            bounds[0].terms,
        ]
    )


def bound_of(selection: Selection, alpha: float, *, paired: bool = False) -> Guarantee | str:
    """The bound, or the reason why there is none; ``paired`` may read saved predictions."""
    try:
        return selection.guarantee(alpha, paired=paired)
    except NoGuaranteeError as error:
        return str(error)
