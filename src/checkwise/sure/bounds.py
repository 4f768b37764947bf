"""How much selection flatters the validation results of the checkpoint that it chose.

A checkpoint that was chosen for its accuracy on some examples is partly lucky on them. The rule is
run on all but a part of the examples, and its choice is measured on that part: on average the two
differ by the optimism of the rule, because the part had no say in the choice.

The interval is one around every checkpoint at once (max-t over bootstrap draws), so it covers the
one that was chosen, however it was chosen. It is asymptotic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from checkwise.errors import MissingMetricError
from checkwise.metrics import number, whole
from checkwise.records import Trajectory
from checkwise.selection import ACCURACY, FOLDS, LEVEL, REPEATS, Choice, FloatArray, domain_weights
from checkwise.statistics import Stratified, regret, regret_of_worst_domain
from checkwise.sure.draws import DrawnColumns, bootstrapped, folds_of
from checkwise.sure.shares import MOST_DRAWS, choices, table_of

if TYPE_CHECKING:
    from checkwise.selection import Selection

DRAWS: Final = 2000  # of the interval


@dataclass(frozen=True)
class Corrected:
    """One metric of the chosen checkpoint, with what selection added to it."""

    measured: float  # on the validation examples that it was chosen on
    optimism: float  # how much better than on other examples that is, estimated; usually positive
    corrected: float  # without the optimism
    low: float  # of an interval around `measured` that holds after selection
    high: float


def optimism(
    s: Selection,
    *,
    folds: int = FOLDS,
    repeats: int = REPEATS,
    level: float = LEVEL,
    seed: int = 0,
) -> dict[str, Corrected]:
    """What :meth:`Selection.optimism` returns."""
    whole(folds, "folds", least=2)
    whole(repeats, "repeats", least=1, most=MOST_DRAWS)
    number(level, "level", above=0, below=1)
    rest, left_out = folds_of(s.trajectory, folds, repeats, seed)
    seen, unseen = table_of(s, rest), DrawnColumns(left_out, s.choice)
    chosen = choices(s, seen)[:, None]
    examples = s.trajectory.examples
    assert examples is not None  # the folds were made of them
    if ACCURACY not in s.trajectory.metrics:
        raise MissingMetricError("Expected accuracy to correct, but this run carries none.")
    names = (ACCURACY, "nll") if examples.nll is not None else (ACCURACY,)
    ends = _interval(s, names, level, seed)
    found: dict[str, Corrected] = {}
    for name in names:
        sign = 1 if name == ACCURACY else -1
        here, there = (np.take_along_axis(table[name], chosen, axis=1) for table in (seen, unseen))
        flattered = sign * float((here - there).mean())
        measured = float(s.columns[name][s.index])
        found[name] = Corrected(measured, flattered, measured - sign * flattered, *ends[name])
    return found


def _interval(
    s: Selection, names: tuple[str, ...], level: float, seed: int
) -> Mapping[str, tuple[float, float]]:
    """Ends around the chosen checkpoint that hold for every checkpoint at once."""
    parts: dict[str, list[FloatArray]] = {name: [] for name in names}
    for drawn in bootstrapped(s.trajectory, DRAWS, seed):
        table = DrawnColumns(drawn, s.choice)
        for name in names:
            parts[name].append(table[name])
    ends, usable = {}, ~s.trajectory.diverged
    at = int(usable[: s.index].sum())
    for name, values in parts.items():
        moved, centre = np.concatenate(values)[:, usable], s.columns[name][usable]
        spread = moved.std(axis=0, ddof=1)
        sure = spread > 0
        largest = (np.abs(moved - centre)[:, sure] / spread[sure]).max(axis=1, initial=0.0)
        half = float(np.quantile(largest, level)) * float(spread[at])
        low, high = float(centre[at]) - half, float(centre[at]) + half
        ends[name] = (max(low, 0.0), min(high, 1.0) if name == ACCURACY else high)
    return ends


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
