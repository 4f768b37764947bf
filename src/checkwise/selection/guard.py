"""The guard: where hardly an error is left, validation cannot rank checkpoints.

Where nearly every validation example is right, lower NLL and calibration error mostly reward
sharper probabilities, which fit a handful of examples and do harm elsewhere. The earliest
checkpoint near the best is the answer then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from checkwise.selection.constraint import ACCURACY
from checkwise.words import counted, points

if TYPE_CHECKING:
    from checkwise.records import Trajectory
    from checkwise.selection.result import Selection
    from checkwise.selection.rulebook import Rule

FEW_ERRORS: Final = 5
SAFER: Final = "ac-early"  # looks at accuracy and time alone
WITHIN_PP: Final = "0.5"  # of the best accuracy, whatever tolerance the rule was given


@dataclass(frozen=True)
class Saturation:
    """How many errors validation has left.

    Args:
        errors: validation examples that the most accurate checkpoint gets wrong, over all domains;
            of equally accurate ones the earliest.
        examples: validation examples; None where only a perfect score says that there is no error.
    """

    errors: int
    examples: int | None

    @property
    def saturated(self) -> bool:
        """Whether ranking by probabilities is not to be trusted."""
        return self.errors <= FEW_ERRORS


@dataclass(frozen=True)
class Guard:
    """What the guard did about a choice.

    Args:
        acted: whether the choice is the earliest checkpoint near the best, instead of the rule's.
        without: the step that the rule itself chooses; None where it stands for an average.
    """

    acted: bool
    without: int | None


def saturation(s: Selection) -> Saturation | None:
    """The state of a run's validation; None where the number of errors is not known."""
    best = int(np.argmin(s.columns.order_by(ACCURACY)))
    counted_errors = _errors(s.trajectory, best)
    return None if counted_errors is None else Saturation(*counted_errors)


def _errors(trajectory: Trajectory, best: int) -> tuple[int, int | None] | None:
    """Errors of the best checkpoint and the number of examples, as far as they are known."""
    if trajectory.counts is None or trajectory.correct is None:
        perfect = (trajectory.values[ACCURACY][best] == 1).all()
        return (0, None) if perfect else None
    examples = int(trajectory.counts.sum())
    return examples - int(trajectory.correct[best].sum()), examples


def guards(rule: Rule, params: Mapping[str, Any]) -> bool:
    """Whether a rule ranks by more than accuracy and time, near the best accuracy or anywhere."""
    looked_at = params.get("objectives", rule.needs)
    return rule.constraint(params) == ACCURACY and any(name != ACCURACY for name in looked_at)


def guarded_answer(s: Selection, *, offer: bool = True) -> str:
    """The one answer where the guard acted, with the reason; else nothing.

    ``offer`` names the option that switches the guard off.
    """
    said = _reason_and_place(s, offer=offer)
    return f"{said[0]} Use step {s.step}, {said[1]}." if said else ""


def guarded_because(s: Selection) -> str:
    """Why the guard acted, after the answer was given."""
    said = _reason_and_place(s, offer=True)
    return f"{said[0]} This is {said[1]}." if said else ""


def _reason_and_place(s: Selection, *, offer: bool) -> tuple[str, str] | None:
    """Why validation cannot choose, and which checkpoint was taken instead."""
    if s.guard is None or not s.guard.acted or s.saturation is None:
        return None
    rules = "an average" if s.guard.without is None else f"step {s.guard.without}"
    other = f" (--no-guard: {rules})" if offer and s.guard.without != s.step else ""
    near = int(s.feasible.sum())
    errors, examples = s.saturation.errors, s.saturation.examples
    if errors == 0 and near > 1 and not s.columns["gap_pp"][s.feasible].any():
        reason = f"{near} checkpoints make no error on validation, so it cannot tell them apart."
        return reason, f"the earliest{other}"
    made = counted(errors, "error") if errors else "no error"
    made += "" if examples is None else f" in {examples} examples"
    which = "the only checkpoint" if near == 1 else f"the earliest of {near} checkpoints"
    return (
        f"The best checkpoint makes {made} on validation, too few to rank checkpoints by their "
        "probabilities.",
        f"{which} within {points(WITHIN_PP)} of the best{other}",
    )
