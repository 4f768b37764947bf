"""How the checkpoints of a run stand by a score that is no accuracy.

Such scores come without counts, so they are compared as floats. The edge of the tolerance allows
1e-11 of the best value and of the tolerance: what 1e-9 points are to an accuracy near 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import MissingMetricError
from checkwise.metrics import Direction
from checkwise.records import Trajectory
from checkwise.selection.choice import Choice
from checkwise.selection.constraint import ACCURACY, Tolerance, direction_of, known_direction
from checkwise.selection.standing import (
    BoolArray,
    FloatArray,
    IntArray,
    Points,
    Standing,
    decimal,
    dense_order,
    domain_weights,
    nearest_float,
    standing,
    tolerance,
    weighted_mean,
)
from checkwise.selection.tolerances import near_best

SLACK = Fraction(1, 10**11)


@dataclass(frozen=True)
class ScoreStanding:
    """One score of one run's checkpoints, in order.

    Args:
        values: the score, [T].
        best: the best value of a checkpoint that did not diverge.
        gap: how much worse than the best, 0 or more, [T]; nan for diverged checkpoints.
        order: dense rank, 0 for the best value, equal where values are equal, [T].
        direction: whether higher or lower is better.
    """

    values: FloatArray
    best: Fraction
    gap: FloatArray
    order: IntArray
    direction: Direction
    _diverged: BoolArray

    def near_best(self, asked: Tolerance) -> BoolArray:
        """The feasible set: not diverged, and no further from the best than the tolerance."""
        size, allowed = abs(self.best), asked.allowed(self.best)
        with_slack = allowed + SLACK * (size + allowed)
        if asked.relative:
            # Up to 100%, the edge only moves towards better values while the best improves.
            with_slack = min(with_slack, size)
        # An exact edge that is rounded once cannot move back, as sums of floats may by a bit.
        with np.errstate(invalid="ignore"):
            if self.direction == "higher":
                near = self.values >= nearest_float(self.best - with_slack)
            else:
                near = self.values <= nearest_float(self.best + with_slack)
        return np.asarray(near, dtype=bool) & ~self._diverged


def score_standing(values: FloatArray, diverged: BoolArray, direction: Direction) -> ScoreStanding:
    """Compare checkpoints by a score, higher or lower being better."""
    quality = values if direction == "higher" else -values
    best = float(quality[~diverged].max())
    return ScoreStanding(
        values=values,
        best=Fraction(best if direction == "higher" else -best),
        gap=np.where(diverged, np.nan, best - quality),
        order=dense_order(quality, diverged, float(SLACK) * abs(best)),
        direction=direction,
        _diverged=diverged,
    )


class Columns(Mapping[str, NDArray[Any]]):
    """Columns of one run, each [T], or of R runs with equally many checkpoints, each [R, T].

    Columns: ``step``, ``accuracy`` (fraction), ``gap_pp`` (points below the best), ``order``
    (0 for the best accuracy; equal accuracies share a number), ``diverged``, and one per metric the
    run carries (``nll``, ``ece``, ``cwece`` …): means over the source domains, or the worst domain
    if that was asked for. A run without accuracy has no ``accuracy``, ``gap_pp`` and ``order``.
    Arrays are read-only.

    Example:
        >>> run = Trajectory(steps=[100, 200], domains=["val"],
        ...                  values={"accuracy": [[0.9], [0.895]], "nll": [[0.7], [0.4]]})
        >>> table = Columns.of(run)
        >>> table["nll"], table.within(0.5)
        (array([0.7, 0.4]), array([ True,  True]))
    """

    def __init__(
        self,
        runs: Sequence[Trajectory],
        standings: Sequence[Standing | None],
        arrays: Mapping[str, NDArray[Any]],
        choice: Choice,
    ):
        self._runs = runs
        self._standings = standings
        self._arrays = arrays
        self._choice = choice

    @classmethod
    def of(cls, run: Trajectory, choice: Choice | None = None) -> Columns:
        """The columns of one run; ``choice`` says how domains count and what is near the best."""
        choice = choice or Choice()
        weighted = _weighted(run, choice)
        return cls([run], [weighted.standing], weighted.arrays, choice)

    @classmethod
    def stack(cls, runs: Sequence[Trajectory], choice: Choice) -> Columns:
        """The columns of many runs that have equally many checkpoints and the same metrics."""
        weighted = [_weighted(run, choice) for run in runs]
        arrays = {
            name: np.stack([one.arrays[name] for one in weighted]) for name in weighted[0].arrays
        }
        return cls(runs, [one.standing for one in weighted], arrays, choice)

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._arrays:
            if name in self._runs[0].metrics:
                direction_of(name, self._choice.directions)  # without it no domain is the worst
            raise MissingMetricError(
                f"Expected the metric {name!r}, but this run carries only "
                f"{', '.join(self._runs[0].metrics)}."
            )
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def error(self, metric: str) -> FloatArray:
        """A metric with the sign that makes smaller better."""
        values = self[metric]
        return -values if direction_of(metric, self._choice.directions) == "higher" else values

    def within(self, delta_pp: Points) -> BoolArray:
        """The feasible set: at most ``delta_pp`` points below the best accuracy, exactly.

        Under another tolerance than "fixed", the checkpoints that it keeps.
        """
        delta = tolerance(delta_pp)
        return self._near_best_accuracy([delta] * len(self._accuracies()))

    def within_points(self, delta_pp: Points) -> BoolArray:
        """At most ``delta_pp`` points below the best accuracy, whatever the tolerance."""
        delta = tolerance(delta_pp)
        return self._shaped([one.within(delta) for one in self._accuracies()])

    def _near_best_accuracy(self, deltas_pp: Sequence[Fraction]) -> BoolArray:
        standings = self._accuracies()
        kind, weights = self._choice.kind, self._choice.weights
        if kind.fixed:
            pairs = zip(standings, deltas_pp, strict=True)
            return self._shaped([one.within(delta) for one, delta in pairs])
        parts = zip(self._runs, standings, deltas_pp, strict=True)
        return self._shaped(
            [
                near_best(run, kind, delta / 100, weights, one.order == 0)
                for run, one, delta in parts
            ]
        )

    def at_least(self, threshold_pp: Points) -> BoolArray:
        """Checkpoints whose accuracy reaches an absolute number of points, exactly."""
        threshold = decimal(threshold_pp, "threshold_pp")
        return self._shaped([one.at_least(threshold) for one in self._accuracies()])

    def near_best(self, constraint: str, asked: Tolerance) -> BoolArray:
        """The feasible set: within a tolerance of the best value of any score."""
        if constraint == ACCURACY:
            deltas = [100 * asked.allowed(one.best) for one in self._accuracies()]
            return self._near_best_accuracy(deltas)
        return self._shaped([one.near_best(asked) for one in self.scores(constraint)])

    def order_by(self, score: str) -> IntArray:
        """0 for the best value of a score; equal values share a number."""
        if score == ACCURACY:
            return self["order"]
        orders = [one.order for one in self.scores(score)]
        return np.stack(orders) if self["step"].ndim == 2 else orders[0]

    def best(self, score: str) -> Fraction:
        """The best value of a score in one run."""
        return self._accuracies()[0].best if score == ACCURACY else self.scores(score)[0].best

    def scores(self, name: str) -> list[ScoreStanding]:
        """How the checkpoints of every run stand by a score that is no accuracy."""
        direction = direction_of(name, self._choice.directions)
        rows = zip(np.atleast_2d(self[name]), np.atleast_2d(self["diverged"]), strict=True)
        return [score_standing(values, diverged, direction) for values, diverged in rows]

    def _accuracies(self) -> list[Standing]:
        standings = [one for one in self._standings if one is not None]
        if not standings:
            self[ACCURACY]  # says that there is none
        return standings

    @property
    def identities(self) -> list[str]:
        """A stable name per run, for reproducible draws."""
        return [run.identity for run in self._runs]

    def _shaped(self, per_run: Sequence[BoolArray]) -> BoolArray:
        return np.stack(per_run) if self["step"].ndim == 2 else per_run[0]


class _Weighted(NamedTuple):
    """One run under one weighting of its domains."""

    standing: Standing | None
    arrays: Mapping[str, NDArray[Any]]


_REMEMBERED: WeakKeyDictionary[Trajectory, dict[tuple[str, bool], _Weighted]] = WeakKeyDictionary()


def _weighted(run: Trajectory, choice: Choice) -> _Weighted:
    """Remembered where the weighting has a name: rules ask for the same one again and again."""
    if not isinstance(choice.weights, str) or (choice.worst_domain and choice.directions):
        return _weigh(run, choice)
    remembered = _REMEMBERED.setdefault(run, {})
    weighting = (choice.weights, choice.worst_domain)
    if weighting not in remembered:
        remembered[weighting] = _weigh(run, choice)
    return remembered[weighting]


def _weigh(run: Trajectory, choice: Choice) -> _Weighted:
    weights, worst_domain = choice.weights, choice.worst_domain
    accuracies = standing(run, weights, worst_domain) if ACCURACY in run.values else None
    arrays: dict[str, NDArray[Any]] = {"step": run.steps}
    if accuracies is not None:
        arrays |= {
            "accuracy": accuracies.accuracy,
            "gap_pp": accuracies.gap_pp,
            "order": accuracies.order,
        }
    arrays["diverged"] = run.diverged
    shares = domain_weights(run, weights)
    for name, values in run.values.items():
        if name == ACCURACY:
            continue
        if not worst_domain:
            arrays[name] = weighted_mean(values, shares)
        elif (direction := known_direction(name, choice.directions)) is not None:
            arrays[name] = values.min(axis=1) if direction == "higher" else values.max(axis=1)
    if weights == "equal" and not worst_domain:
        arrays.update(run.pooled)  # logged as equal means, so for no other weighting
    for array in arrays.values():
        array.setflags(write=False)
    return _Weighted(accuracies, arrays)
