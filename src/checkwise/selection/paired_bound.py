"""The bound of a choice by the examples that all checkpoints share; it holds after selection."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from checkwise.records import Trajectory
from checkwise.selection.choice import Choice
from checkwise.selection.standing import domain_weights
from checkwise.statistics.paired import Stratified
from checkwise.statistics.paired.betting import regret, regret_of_worst_domain


@dataclass(frozen=True)
class PairedBound:
    """How far below the best checkpoint the choice may be, in points, and what has to hold."""

    bound_pp: float
    conditions: tuple[str, ...]


def paired_bound(run: Trajectory, index: int, choice: Choice, alpha: float) -> PairedBound | None:
    """The bound at one checkpoint; None where the run does not tell what every example said.

    It holds for all checkpoints at once, so also for one that was chosen on the same examples,
    whatever the rule. Checkpoints that were evaluated and cannot be chosen any more count too.
    """
    if run.examples is None:
        return None
    examples = run.examples.evaluated
    shares = [float(share) for share in domain_weights(run, choice.weights)]
    sample = Stratified(examples.correct, shares, examples.groups)
    bounds = regret_of_worst_domain if choice.worst_domain else regret
    evaluated = max(run.evaluated, len(sample))
    found = bounds(sample, alpha=alpha, evaluated=evaluated)
    at = int(np.flatnonzero(examples.steps == run.steps[index])[0])
    return PairedBound(100 * float(found.upper[at]), found.conditions)
