"""What a rule sees of a run: columns over its checkpoints, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import MissingMetricError
from checkwise.records import Trajectory
from checkwise.selection.constraint import ACCURACY, Tolerance
from checkwise.selection.directions import Directions, direction_of, known_direction
from checkwise.selection.scores import ScoreStanding, score_standing
from checkwise.selection.standing import (
    BoolArray,
    FloatArray,
    IntArray,
    Points,
    Standing,
    Weights,
    check_weighting,
    decimal,
    domain_weights,
    standing,
    tolerance,
    weighted_mean,
)
from checkwise.selection.tolerances import FIXED, ToleranceKind, check_kind, near_best


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
        directions: Directions | None = None,
        weights: Weights = "equal",
        kind: ToleranceKind = FIXED,
        worst_domain: bool = False,
    ):
        self._runs = runs
        self._standings = standings
        self._arrays = arrays
        self._directions = directions
        self._weights = weights
        self._kind = kind
        self._worst_domain = worst_domain

    @classmethod
    def of(
        cls,
        run: Trajectory,
        *,
        weights: Weights = "equal",
        worst_domain: bool = False,
        directions: Directions | None = None,
        tolerance: ToleranceKind = FIXED,
    ) -> Columns:
        """The columns of one run; ``tolerance`` decides which checkpoints are near the best."""
        check_kind(tolerance, worst_domain)
        weighted = _weighted(run, weights, worst_domain, directions)
        standings = [weighted.standing]
        return cls([run], standings, weighted.arrays, directions, weights, tolerance, worst_domain)

    @classmethod
    def stack(
        cls,
        runs: Sequence[Trajectory],
        *,
        weights: Weights = "equal",
        worst_domain: bool = False,
        directions: Directions | None = None,
        tolerance: ToleranceKind = FIXED,
    ) -> Columns:
        """The columns of many runs that have equally many checkpoints and the same metrics."""
        check_kind(tolerance, worst_domain)
        weighted = [_weighted(run, weights, worst_domain, directions) for run in runs]
        arrays = {
            name: np.stack([one.arrays[name] for one in weighted]) for name in weighted[0].arrays
        }
        standings = [one.standing for one in weighted]
        return cls(runs, standings, arrays, directions, weights, tolerance, worst_domain)

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._arrays:
            if name in self._runs[0].metrics:
                direction_of(name, self._directions)  # without it no domain is the worst
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
        return -values if direction_of(metric, self._directions) == "higher" else values

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
        if self._kind.fixed:
            pairs = zip(standings, deltas_pp, strict=True)
            return self._shaped([one.within(delta) for one, delta in pairs])
        parts = zip(self._runs, standings, deltas_pp, strict=True)
        return self._shaped(
            [
                near_best(run, self._kind, delta / 100, self._weights, one.order == 0)
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
        direction = direction_of(name, self._directions)
        rows = zip(np.atleast_2d(self[name]), np.atleast_2d(self["diverged"]), strict=True)
        return [score_standing(values, diverged, direction) for values, diverged in rows]

    def _accuracies(self) -> list[Standing]:
        standings = [one for one in self._standings if one is not None]
        if not standings:
            self[ACCURACY]  # says that there is none
        return standings

    @property
    def options(self) -> dict[str, Any]:
        """How domains count, directions and the tolerance, as :meth:`of` takes them."""
        return {
            "weights": self._weights,
            "worst_domain": self._worst_domain,
            "directions": self._directions,
            "tolerance": self._kind,
        }

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


def _weighted(
    run: Trajectory, weights: Weights, worst_domain: bool, directions: Directions | None
) -> _Weighted:
    """Remembered where the weighting has a name: rules ask for the same one again and again."""
    check_weighting(weights, worst_domain)
    if not isinstance(weights, str) or (worst_domain and directions):
        return _weigh(run, weights, worst_domain, directions)
    remembered = _REMEMBERED.setdefault(run, {})
    if (weights, worst_domain) not in remembered:
        remembered[weights, worst_domain] = _weigh(run, weights, worst_domain, None)
    return remembered[weights, worst_domain]


def _weigh(
    run: Trajectory, weights: Weights, worst_domain: bool, directions: Directions | None
) -> _Weighted:
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
        elif (direction := known_direction(name, directions)) is not None:
            arrays[name] = values.min(axis=1) if direction == "higher" else values.max(axis=1)
    if weights == "equal" and not worst_domain:
        arrays.update(run.pooled)  # logged as equal means, so for no other weighting
    for array in arrays.values():
        array.setflags(write=False)
    return _Weighted(accuracies, arrays)
