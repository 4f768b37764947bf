"""What a rule sees of a run: one array per score, and what is near the best."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import MissingMetricError
from checkwise.records import Trajectory
from checkwise.selection.constraint import ACCURACY, Points, Tolerance, decimal, tolerance_of
from checkwise.selection.directions import direction_of, known_direction
from checkwise.selection.standing import (
    BoolArray,
    FloatArray,
    IntArray,
    Standing,
    by_accuracy,
    by_score,
    domain_weights,
    weighted_mean,
)

if TYPE_CHECKING:
    from checkwise.selection.choice import Choice

_OF_ACCURACY: Final = (ACCURACY, "gap_pp", "order")


@dataclass(frozen=True)
class Weighted:
    """One run under one weighting of its domains."""

    arrays: Mapping[str, NDArray[Any]]  # `step`, `diverged` and every metric but accuracy, [T]
    standing: Standing | None  # by accuracy; None without it
    # Validation examples that each checkpoint gets wrong, over all domains, [T]; -1 where that is
    # not known. Without counts only a perfect score says that there is none.
    errors: IntArray

    def taken(self, rows: Any) -> Weighted:
        """The same of some of the checkpoints."""
        arrays = {name: array[rows] for name, array in self.arrays.items()}
        return Weighted(arrays, self.standing and self.standing.taken(rows), self.errors[rows])

    def joined(self, other: Weighted) -> Weighted | None:
        """With further checkpoints, by step; None where the two cannot be compared as one run."""
        one, two = self.standing, other.standing
        alike = one is two or (one and two and one.denominator == two.denominator)
        if not alike or set(self.arrays) != set(other.arrays):
            return None
        order = np.argsort(np.concatenate([self.arrays["step"], other.arrays["step"]]))
        arrays = {n: np.concatenate([a, other.arrays[n]])[order] for n, a in self.arrays.items()}
        standing = None
        if one is not None and two is not None:
            units = np.concatenate([one.units, two.units])[order]
            standing = replace(one, units=units, diverged=arrays["diverged"])
        return Weighted(arrays, standing, np.concatenate([self.errors, other.errors])[order])


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
        weighted: Sequence[Weighted],
        choice: Choice,
        runs: Sequence[Trajectory] = (),
        *,
        stacked: bool = True,
    ):
        self._weighted = weighted
        self._choice = choice
        self._runs = runs
        self._stacked = stacked
        self._known: dict[str, NDArray[Any]] = {}

    @classmethod
    def of(cls, run: Trajectory, choice: Choice | None = None) -> Columns:
        """The columns of one run; ``choice`` says how domains count and what is near the best."""
        if choice is None:
            from checkwise.selection.choice import Choice  # whose rules look at columns

            choice = Choice()
        return cls([weighted(run, choice)], choice, [run], stacked=False)

    @classmethod
    def stack(cls, runs: Sequence[Trajectory], choice: Choice) -> Columns:
        """The columns of many runs that have equally many checkpoints and the same metrics."""
        return cls([weighted(run, choice) for run in runs], choice, runs)

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._known:
            self._known[name] = self._column(name)
            self._known[name].setflags(write=False)
        return self._known[name]

    def _column(self, name: str) -> NDArray[Any]:
        if name in _OF_ACCURACY and self._weighted[0].standing is not None:
            return self._shaped([getattr(one, name) for one in self._accuracies()])
        if name in self._weighted[0].arrays:
            return self._shaped([one.arrays[name] for one in self._weighted])
        metrics = self._runs[0].metrics if self._runs else tuple(self)
        if name in metrics:
            direction_of(name, self._choice.directions)  # without it no domain is the worst
        raise MissingMetricError(
            f"Expected the metric {name!r}, but this run carries only {', '.join(metrics)}."
        )

    def __iter__(self) -> Iterator[str]:
        first = self._weighted[0]
        accuracy = () if first.standing is None else _OF_ACCURACY
        return iter(("step", *accuracy, *(name for name in first.arrays if name != "step")))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def error(self, metric: str) -> FloatArray:
        """A metric with the sign that makes smaller better."""
        values = self[metric]
        return -values if direction_of(metric, self._choice.directions) == "higher" else values

    def within(self, delta_pp: Points) -> BoolArray:
        """The feasible set: at most ``delta_pp`` points below the best accuracy, exactly.

        Under another tolerance than "fixed", the checkpoints that it keeps.
        """
        return self.near_best(ACCURACY, tolerance_of(delta_pp, None))

    def within_points(self, delta_pp: Points) -> BoolArray:
        """At most ``delta_pp`` points below the best accuracy, whatever the tolerance."""
        asked = tolerance_of(delta_pp, None)
        return self._shaped([one.near(asked) for one in self._accuracies()])

    def at_least(self, threshold_pp: Points) -> BoolArray:
        """Checkpoints whose accuracy reaches an absolute number of points, exactly."""
        threshold = decimal(threshold_pp, "threshold_pp")
        return self._shaped([one.at_least(threshold) for one in self._accuracies()])

    def near_best(self, constraint: str, asked: Tolerance) -> BoolArray:
        """The feasible set: within a tolerance of the best value of any score."""
        standings, choice = self.standings(constraint), self._choice
        if constraint != ACCURACY or choice.kind.fixed:
            return self._shaped([one.near(asked) for one in standings])
        from checkwise.selection.paired import near_best  # where it is asked for

        return self._shaped(
            [
                near_best(run, choice.kind, asked.allowed(one.best), choice.weights, one.order)
                for run, one in zip(self._runs, standings, strict=True)
            ]
        )

    def order_by(self, score: str) -> IntArray:
        """0 for the best value of a score; equal values share a number, absent ones all."""
        if score == ACCURACY:
            return self["order"] if score in self else np.zeros(self["step"].shape, dtype=np.int64)
        return self._shaped([one.order for one in self.standings(score)])

    def standings(self, name: str) -> list[Standing]:
        """How the checkpoints of every run stand by a score."""
        if name == ACCURACY:
            return self._accuracies()
        direction = direction_of(name, self._choice.directions)
        rows = zip(np.atleast_2d(self[name]), np.atleast_2d(self["diverged"]), strict=True)
        return [by_score(values, diverged, direction) for values, diverged in rows]

    def _accuracies(self) -> list[Standing]:
        standings = [one.standing for one in self._weighted if one.standing is not None]
        if not standings:
            self[ACCURACY]  # says that there is none
        return standings

    @property
    def errors_of_best(self) -> IntArray:
        """How many examples the earliest most accurate checkpoint gets wrong; -1 if not known."""
        every = self._shaped([one.errors for one in self._weighted])
        best = np.argmin(self["order"], axis=-1, keepdims=True)
        return np.asarray(np.take_along_axis(every, best, axis=-1)[..., 0])

    @property
    def identities(self) -> list[str]:
        """A stable name per run, for reproducible draws."""
        return [run.identity for run in self._runs]

    def _shaped(self, per_run: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.stack(per_run) if self._stacked else per_run[0]


_REMEMBERED: WeakKeyDictionary[Trajectory, dict[tuple[str, bool], Weighted]] = WeakKeyDictionary()


def weighted(run: Trajectory, choice: Choice) -> Weighted:
    """A run under the weighting of a choice.

    Remembered where the weighting has a name: rules ask for the same one again and again.
    """
    if not isinstance(choice.weights, str) or (choice.worst_domain and choice.directions):
        return weigh(run, choice)
    remembered = _REMEMBERED.setdefault(run, {})
    weighting = (choice.weights, choice.worst_domain)
    if weighting not in remembered:
        remembered[weighting] = weigh(run, choice)
    return remembered[weighting]


def weigh(run: Trajectory, choice: Choice) -> Weighted:
    """A run under the weighting of a choice, computed anew."""
    weights, worst_domain = choice.weights, choice.worst_domain
    standing, errors = None, np.full(len(run), -1)
    if ACCURACY in run.values:
        standing = by_accuracy(run, weights, worst_domain)
        errors = np.where((run.values[ACCURACY] == 1).all(axis=1), 0, errors)
    if run.counts is not None and run.correct is not None:
        errors = int(run.counts.sum()) - run.correct.sum(axis=1)
    arrays: dict[str, NDArray[Any]] = {"step": run.steps, "diverged": run.diverged}
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
    return Weighted(arrays, standing, errors)
