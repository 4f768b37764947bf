"""The guard: where hardly an error is left, validation cannot rank checkpoints.

Where nearly every validation example is right, lower NLL and calibration error mostly reward
sharper probabilities, which fit a handful of examples and do harm elsewhere. The earliest
checkpoint near the best is the answer then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from checkwise.selection.columns import Columns
from checkwise.selection.constrained import choose
from checkwise.selection.constraint import ACCURACY
from checkwise.selection.rulebook import Rule
from checkwise.selection.standing import BoolArray, IntArray

FEW_ERRORS: Final = 5
SAFER: Final = "ac-early"  # looks at accuracy and time alone
WITHIN_PP: Final = "0.5"  # of the best accuracy, whatever tolerance the rule was given


@dataclass(frozen=True)
class Saturation:
    """How many errors validation has left: those of the earliest most accurate checkpoint."""

    errors: int
    examples: int | None  # None where only a perfect score says that there is no error


@dataclass(frozen=True)
class Guard:
    """What the guard did about a choice."""

    acted: bool  # whether the choice is the earliest checkpoint near the best
    without: int | None  # the step that the rule itself chooses; None where it is an average


def saturated(table: Columns) -> BoolArray:
    """Whether the best checkpoint of each run has too few errors to rank by probabilities."""
    errors = table.errors_of_best
    return np.asarray((errors >= 0) & (errors <= FEW_ERRORS))


def guards(rule: Rule, params: Mapping[str, Any]) -> bool:
    """Whether a rule ranks by more than accuracy and time, near the best accuracy or anywhere."""
    looked_at = params.get("objectives", rule.needs)
    return rule.constraint(params) == ACCURACY and any(name != ACCURACY for name in looked_at)


def choices(
    rule: Rule, params: Mapping[str, Any], table: Columns, *, guard: bool = False
) -> IntArray:
    """The index that a rule chooses in every run of a table, with the guard where it is on."""
    if guard and ACCURACY in table and guards(rule, params) and (few := saturated(table)).any():
        earliest = np.argmax(table.within_points(WITHIN_PP), axis=-1)
        return np.where(few, earliest, choices(rule, params, table))
    order = table.order_by(rule.constraint(params))
    chosen = choose(rule.ranking(table, params), order, ties=rule.ties(params))
    return np.asarray(chosen, dtype=np.int64)


def may_be_chosen(
    rule: Rule, params: Mapping[str, Any], table: Columns, *, guard: bool
) -> BoolArray:
    """What the rule may choose when more checkpoints come.

    Proof. Let a_i be the accuracy of checkpoint i, b_t the best of the first t, and δ the
    tolerance. Checkpoint i is feasible at t if a_i ≥ b_t − δ. The best only rises: b_s ≤ b_t for
    s ≤ t. So if a_i < b_s − δ then a_i < b_t − δ for every later t, and i is never feasible again.
    Objectives are normalised over the feasible checkpoints alone, so those that fell out change
    neither the choice nor its score. A checkpoint that ``pareto`` leaves out stays: the one that
    beats it may fall below the tolerance. With the guard, the choice is that of the rule or the
    earliest within 0.5 points of the best; whether validation is saturated may change with every
    new best, so both may be chosen later, and the same holds for 0.5 points in place of δ. Of the
    tolerance "paired", ``ToleranceKind`` says why.

    So it is with any other constraint and a tolerance in its own units. A relative one of p moves
    too: its edge b − p·|b| rises with b, by 1 − p above 0 and by 1 + p below, and p is at most 1.
    Where lower is better, all of this is mirrored.
    """
    if not rule.prunable:
        return np.ones(len(table["step"]), dtype=bool)
    eligible = rule.near_best(table, params)
    if guard and guards(rule, params):
        eligible = eligible | table.within_points(WITHIN_PP)
    return eligible
