"""The rule with any score as its constraint, as SPEC and the docs write it: fractions and loops."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Score:
    """A score by domain at each step, and whether more of it is better."""

    values: list[list[Fraction]]
    higher: bool

    def at(self, t: int, weights: list[Fraction] | None) -> Fraction:
        """The weighted mean over domains; without weights the worst domain."""
        row = self.values[t]
        if weights is None:
            return min(row) if self.higher else max(row)
        return sum((w * v for w, v in zip(weights, row, strict=True)), Fraction(0))


def feasible(
    constraint: Score, usable: list[int], weights: list[Fraction] | None, delta: str
) -> list[int]:
    """The steps near the best: ``delta`` is `P%` of the best value, or an amount."""
    sign = 1 if constraint.higher else -1
    quality = {t: sign * constraint.at(t, weights) for t in usable}
    best = max(quality.values())
    share = Fraction(delta[:-1]) / 100 if delta.endswith("%") else None
    allowed = Fraction(delta) if share is None else share * abs(best)
    return [t for t in usable if best - quality[t] <= allowed]


def choose(
    constraint: Score,
    objectives: list[Score],
    usable: list[int],
    weights: list[Fraction] | None,
    delta: str,
    ties: str,
) -> tuple[int, list[int], list[int]]:
    """The chosen step, the steps tied with it, and the feasible steps; q is infinity, η is 0."""
    near = feasible(constraint, usable, weights, delta)
    distance = dict.fromkeys(near, Fraction(0))
    for objective in objectives:
        errors = {t: (-1 if objective.higher else 1) * objective.at(t, weights) for t in near}
        low, high = min(errors.values()), max(errors.values())
        for t in near:
            scaled = (errors[t] - low) / (high - low) if high > low else Fraction(0)
            distance[t] = max(distance[t], scaled)
    tied = [t for t in near if distance[t] == min(distance.values())]
    sign = 1 if constraint.higher else -1
    chosen = {
        "earliest": min(tied),
        "latest": max(tied),
        "accuracy": min(tied, key=lambda t: (-sign * constraint.at(t, weights), t)),
    }[ties]
    return chosen, [t for t in tied if t != chosen], near
