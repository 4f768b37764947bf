"""A checkpoint that a slightly wider tolerance would take, where it is notably better."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from checkwise.selection.constraint import ACCURACY
from checkwise.selection.directions import direction_of
from checkwise.selection.explain import called, relative
from checkwise.selection.result import Selection
from checkwise.selection.select import select
from checkwise.text import listed

WIDER: Final = Fraction(6, 5)
NOTABLE: Final = 0.1  # of an objective


@dataclass(frozen=True)
class NearMiss:
    """The choice under a wider tolerance, and how much better its objectives are."""

    step: int
    gap_pp: float
    delta_pp: str
    gains: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"Step {self.step} is {self.gap_pp:.2f} points below the best, just outside, with "
            f"{listed(self.gains)}: --delta-pp {self.delta_pp} takes it."
        )


def near_miss(s: Selection) -> NearMiss | None:
    """What a fifth more tolerance would choose, if it lies outside the tolerance as it is.

    It has to be a tenth better in one objective at least, and worse in none.
    """
    by_points = "delta_pp" in s.params and s.constraint == ACCURACY and s.choice.kind.fixed
    if s.guard_acted or not by_points or not s.tolerance_pp or not s.looked_at:
        return None
    delta_pp = f"{float(WIDER * s.tolerance_pp):g}"
    params = {**s.params, "delta_pp": delta_pp}
    other = select(s.trajectory, replace(s.choice, rule=s.rule_used, params=params, guard=False))
    if s.feasible[other.index] or other.gap_pp is None:
        return None
    gains = {name: _gain(s, name, other.index) for name in s.looked_at}
    if not all(gain >= 0 for gain in gains.values()) or max(gains.values()) < NOTABLE:
        return None
    words = tuple(
        f"{100 * gain:.0f}% {_less(s, name)} {called(s.trajectory, name)}"
        for name, gain in gains.items()
        if gain >= NOTABLE
    )
    return NearMiss(other.step, other.gap_pp, delta_pp, words)


def _gain(s: Selection, name: str, index: int) -> float:
    """By what share of the choice's value another is better."""
    values = s.columns[name]
    change = relative(float(values[index]), float(values[s.index]))
    return change if direction_of(name, s.choice.directions) == "higher" else -change


def _less(s: Selection, name: str) -> str:
    return "more" if direction_of(name, s.choice.directions) == "higher" else "less"
