"""Saturated validation: too few errors are left to rank checkpoints by their probabilities.

Where nearly every validation example is right, lower NLL and calibration error mostly reward
sharper probabilities, which fit a handful of examples and do harm elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from checkwise.selection.constraint import ACCURACY
from checkwise.text import counted

if TYPE_CHECKING:
    from checkwise.records import Trajectory
    from checkwise.selection.result import Selection

FEW_ERRORS: Final = 5
SAFER: Final = "ac-early"  # looks at accuracy and time alone
_MOSTLY = 0.75
_LEAST_FEASIBLE = 4


@dataclass(frozen=True)
class Saturation:
    """How much validation can still tell about the checkpoints of a run.

    Args:
        errors: validation examples that the most accurate checkpoint gets wrong, over all domains;
            of equally accurate ones the earliest.
        examples: validation examples; None where only a perfect score says that there is no error.
        tied: share of the pairs of feasible checkpoints whose accuracies are equal; 0 where there
            are fewer than two.
        falling: objective → share of the pairs of feasible checkpoints of which the later is
            better: near 1 where the objective improves while accuracy stands still.
    """

    errors: int
    examples: int | None
    tied: float
    falling: Mapping[str, float]

    @property
    def saturated(self) -> bool:
        """Whether ranking by probabilities is not to be trusted."""
        return self.errors <= FEW_ERRORS

    @property
    def out_of(self) -> str:
        """Of how many examples, as ``errors`` in words goes on: ``in 258``, ``in all``."""
        return f"in {'all' if self.examples is None else self.examples}"

    @property
    def still_falling(self) -> tuple[str, ...]:
        """Objectives that mostly improve with time inside the feasible set."""
        return tuple(name for name, share in self.falling.items() if share >= _MOSTLY)


def saturation(s: Selection) -> Saturation | None:
    """The state of a run's validation; None where the number of errors is not known."""
    order = s.columns.order_by(ACCURACY)
    counted_errors = _errors(s.trajectory, int(np.argmin(order)))
    if counted_errors is None:
        return None
    errors, examples = counted_errors
    feasible = np.flatnonzero(s.feasible)
    earlier, later = np.triu_indices(len(feasible), 1)
    one, other = feasible[earlier], feasible[later]
    tied = float(np.mean(order[one] == order[other])) if len(one) else 0.0
    falling = {}
    if len(feasible) >= _LEAST_FEASIBLE:
        for name in s.looked_at:
            values = s.columns.error(name)
            falling[name] = float(np.mean(values[other] < values[one]))
    return Saturation(errors, examples, tied, falling)


def _errors(trajectory: Trajectory, best: int) -> tuple[int, int | None] | None:
    """Errors of the best checkpoint and the number of examples, as far as they are known."""
    if trajectory.counts is None or trajectory.correct is None:
        perfect = (trajectory.values[ACCURACY][best] == 1).all()
        return (0, None) if perfect else None
    examples = int(trajectory.counts.sum())
    return examples - int(trajectory.correct[best].sum()), examples


def distrusted(s: Selection) -> bool:
    """Whether a rule ranked by probabilities on validation that is saturated."""
    return bool(
        s.looked_at and s.constraint == ACCURACY and s.saturation and s.saturation.saturated
    )


def warning(s: Selection) -> str:
    """What to know first where the ranking is not to be trusted; else nothing."""
    if not distrusted(s) or s.saturation is None:
        return ""
    wrong = counted(s.saturation.errors, "error")
    sentence = (
        f"Saturated: the best checkpoint has {wrong} {s.saturation.out_of} validation "
        "examples, too few to rank checkpoints by their probabilities"
    )
    if s.rule_used.constrained:
        earliest = s.trajectory.steps[np.flatnonzero(s.feasible)[0]]
        return f"{sentence}; the earliest feasible one, step {earliest}, is the safer choice."
    return f"{sentence}; {SAFER} is the safer rule."
