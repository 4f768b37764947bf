"""What a rule sees of a run: columns over its checkpoints, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError, MissingMetricError
from checkwise.metrics import METRICS
from checkwise.records import Trajectory
from checkwise.selection.standing import (
    Standing,
    Weights,
    check_weighting,
    decimal,
    domain_weights,
    standing,
    weighted_mean,
)

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


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
        self, runs: Sequence[Trajectory], views: Sequence[View], columns: Mapping[str, NDArray[Any]]
    ):
        self._runs = runs
        self._views = views
        self._columns = columns

    @classmethod
    def of(
        cls, run: Trajectory, *, weights: Weights = "equal", worst_domain: bool = False
    ) -> Columns:
        """The columns of one run."""
        view = view_of(run, weights, worst_domain)
        return cls([run], [view], view.columns)

    @classmethod
    def stack(
        cls, runs: Sequence[Trajectory], *, weights: Weights = "equal", worst_domain: bool = False
    ) -> Columns:
        """The columns of many runs that have equally many checkpoints and the same metrics."""
        views = [view_of(run, weights, worst_domain) for run in runs]
        columns = {
            name: np.stack([view.columns[name] for view in views]) for name in views[0].columns
        }
        return cls(runs, views, columns)

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._columns:
            raise MissingMetricError(
                f"Expected the metric {name!r}, but this run carries only "
                f"{', '.join(self._runs[0].metrics)}."
            )
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def error(self, metric: str) -> FloatArray:
        """A metric with the sign that makes smaller better."""
        higher = metric in METRICS and METRICS[metric].direction == "higher"
        return -self[metric] if higher else self[metric]

    def within(self, delta_pp: object) -> BoolArray:
        """The feasible set: at most ``delta_pp`` points below the best accuracy, exactly."""
        tolerance = decimal(delta_pp, "delta_pp")
        if tolerance < 0:
            raise InputError(f"Expected delta_pp of 0 or more points, but got {delta_pp}.")
        return self._each(lambda view: view.standing.within(tolerance))

    def at_least(self, threshold_pp: object) -> BoolArray:
        """Checkpoints whose accuracy reaches an absolute number of points, exactly."""
        threshold = decimal(threshold_pp, "threshold_pp")
        return self._each(lambda view: view.standing.at_least(threshold))

    @property
    def identities(self) -> list[str]:
        """A stable name per run, for reproducible draws."""
        return [run.identity for run in self._runs]

    def _each(self, ask: Callable[[View], BoolArray]) -> BoolArray:
        answers = [ask(view) for view in self._views]
        return np.stack(answers) if self["step"].ndim == 2 else answers[0]


class View:
    """One run under one weighting: its standing and its columns."""

    def __init__(self, run: Trajectory, weights: Weights, worst_domain: bool):
        self.standing: Standing = standing(run, weights, worst_domain)
        columns: dict[str, NDArray[Any]] = {
            "step": run.steps,
            "accuracy": self.standing.accuracy,
            "gap_pp": self.standing.gap_pp,
            "order": self.standing.order,
            "diverged": run.diverged,
        }
        shares = domain_weights(run, weights)
        for name, values in run.values.items():
            if name == "accuracy":
                continue
            if worst_domain:
                higher = name in METRICS and METRICS[name].direction == "higher"
                columns[name] = values.min(axis=1) if higher else values.max(axis=1)
            else:
                columns[name] = weighted_mean(values, shares)
        if weights == "equal" and not worst_domain:
            columns.update(run.pooled)  # logged as equal means; other weightings cannot be had
        for column in columns.values():
            column.setflags(write=False)
        self.columns = columns


_VIEWS: WeakKeyDictionary[Trajectory, dict[tuple[str, bool], View]] = WeakKeyDictionary()


def view_of(run: Trajectory, weights: Weights, worst_domain: bool) -> View:
    """A view, remembered where the weighting has a name: rules ask for it again and again."""
    check_weighting(weights, worst_domain)
    if not isinstance(weights, str):
        return View(run, weights, worst_domain)
    views = _VIEWS.setdefault(run, {})
    if (weights, worst_domain) not in views:
        views[weights, worst_domain] = View(run, weights, worst_domain)
    return views[weights, worst_domain]
