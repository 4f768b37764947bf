"""What a rule sees of a run: columns over its checkpoints, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import MissingMetricError
from checkwise.metrics import METRICS
from checkwise.records import Trajectory
from checkwise.selection.standing import (
    BoolArray,
    FloatArray,
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


class Columns(Mapping[str, NDArray[Any]]):
    """Columns of one run, each [T], or of R runs with equally many checkpoints, each [R, T].

    Columns: ``step``, ``accuracy`` (fraction), ``gap_pp`` (points below the best), ``order``
    (0 for the best accuracy; equal accuracies share a number), ``diverged``, and one per metric the
    run carries (``nll``, ``ece``, ``cwece`` …): means over the source domains, or the worst domain
    if that was asked for. Arrays are read-only.

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
        standings: Sequence[Standing],
        arrays: Mapping[str, NDArray[Any]],
    ):
        self._runs = runs
        self._standings = standings
        self._arrays = arrays

    @classmethod
    def of(
        cls, run: Trajectory, *, weights: Weights = "equal", worst_domain: bool = False
    ) -> Columns:
        """The columns of one run."""
        weighted = _weighted(run, weights, worst_domain)
        return cls([run], [weighted.standing], weighted.arrays)

    @classmethod
    def stack(
        cls, runs: Sequence[Trajectory], *, weights: Weights = "equal", worst_domain: bool = False
    ) -> Columns:
        """The columns of many runs that have equally many checkpoints and the same metrics."""
        weighted = [_weighted(run, weights, worst_domain) for run in runs]
        arrays = {
            name: np.stack([one.arrays[name] for one in weighted]) for name in weighted[0].arrays
        }
        return cls(runs, [one.standing for one in weighted], arrays)

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._arrays:
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
        return -self[metric] if _higher_is_better(metric) else self[metric]

    def within(self, delta_pp: Points) -> BoolArray:
        """The feasible set: at most ``delta_pp`` points below the best accuracy, exactly."""
        delta = tolerance(delta_pp)
        return self._shaped([one.within(delta) for one in self._standings])

    def at_least(self, threshold_pp: Points) -> BoolArray:
        """Checkpoints whose accuracy reaches an absolute number of points, exactly."""
        threshold = decimal(threshold_pp, "threshold_pp")
        return self._shaped([one.at_least(threshold) for one in self._standings])

    @property
    def identities(self) -> list[str]:
        """A stable name per run, for reproducible draws."""
        return [run.identity for run in self._runs]

    def _shaped(self, per_run: Sequence[BoolArray]) -> BoolArray:
        return np.stack(per_run) if self["step"].ndim == 2 else per_run[0]


class _Weighted(NamedTuple):
    """One run under one weighting of its domains."""

    standing: Standing
    arrays: Mapping[str, NDArray[Any]]


_REMEMBERED: WeakKeyDictionary[Trajectory, dict[tuple[str, bool], _Weighted]] = WeakKeyDictionary()


def _weighted(run: Trajectory, weights: Weights, worst_domain: bool) -> _Weighted:
    """Remembered where the weighting has a name: rules ask for the same one again and again."""
    check_weighting(weights, worst_domain)
    if not isinstance(weights, str):
        return _weigh(run, weights, worst_domain)
    remembered = _REMEMBERED.setdefault(run, {})
    if (weights, worst_domain) not in remembered:
        remembered[weights, worst_domain] = _weigh(run, weights, worst_domain)
    return remembered[weights, worst_domain]


def _weigh(run: Trajectory, weights: Weights, worst_domain: bool) -> _Weighted:
    accuracies = standing(run, weights, worst_domain)
    arrays: dict[str, NDArray[Any]] = {
        "step": run.steps,
        "accuracy": accuracies.accuracy,
        "gap_pp": accuracies.gap_pp,
        "order": accuracies.order,
        "diverged": run.diverged,
    }
    shares = domain_weights(run, weights)
    for name, values in run.values.items():
        if name == "accuracy":
            continue
        if worst_domain:
            arrays[name] = values.min(axis=1) if _higher_is_better(name) else values.max(axis=1)
        else:
            arrays[name] = weighted_mean(values, shares)
    if weights == "equal" and not worst_domain:
        arrays.update(run.pooled)  # logged as equal means, so for no other weighting
    for array in arrays.values():
        array.setflags(write=False)
    return _Weighted(accuracies, arrays)


def _higher_is_better(metric: str) -> bool:
    """By the metric's record; a column that is no registered metric counts as an error."""
    return metric in METRICS and METRICS[metric].direction == "higher"
