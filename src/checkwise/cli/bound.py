"""The accuracy bound on the screen: never without its conditions, and only where it says much."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from checkwise.errors import NoGuaranteeError
from checkwise.selection import Guarantee, Selection

USEFUL_PP: Final = 5.0


def said(selection: Selection, alpha: float) -> str:
    """The bound of one choice in full, or why there is none; it may read saved predictions."""
    bound = _bound(selection, alpha, paired=True)
    if isinstance(bound, str):
        return f"No accuracy bound: {bound}"
    return _useless(bound.tightest_pp) or str(bound)


def said_of_many(selections: Iterable[Selection], alpha: float) -> str:
    """The bounds of several choices as a range, with the conditions that all of them share."""
    statements = [_bound(selection, alpha, paired=False) for selection in selections]
    bounds = [bound for bound in statements if isinstance(bound, Guarantee)]
    if not bounds:
        return f"No accuracy bound: {statements[0]}"
    points = sorted(bound.bound_pp for bound in bounds)
    without = len(statements) - len(bounds)
    if useless := _useless(points[0]):
        return useless
    return "\n".join(
        [
            f"For each run by itself, with probability at least {1 - alpha:g}, the population "
            f"{bounds[0].quantity} of the chosen checkpoint is at most {points[0]:.2f} to "
            f"{points[-1]:.2f} points below the best of its run (--json has every bound)."
            + (f" {without} of {len(statements)} runs have none." if without else ""),
            bounds[0].terms,
        ]
    )


def _useless(points: float) -> str:
    if points <= USEFUL_PP:
        return ""
    return (
        f"No accuracy bound that helps: with so few validation examples it is {points:.2f} points "
        "(docs/guarantees.md)."
    )


def _bound(selection: Selection, alpha: float, *, paired: bool) -> Guarantee | str:
    """The bound, or the reason why there is none."""
    try:
        return selection.guarantee(alpha, paired=paired)
    except NoGuaranteeError as error:
        return str(error)
