"""Whether hyperparameters are chosen too: the scope of a choice.

A family is the runs that differ in their hparams seed alone: same data set, algorithm, held-out
domains and trial.

- ``run``: every run by itself.
- ``hparams-acc``: of the runs of a family the one with the highest validation accuracy; then the
  rule chooses in it.
- ``hparams-ac``: the rule chooses among all (run, checkpoint) pairs of a family at once, so that
  the tolerance is around the best accuracy of any of its runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np

from checkwise.errors import InputError
from checkwise.records import RunKey, Trajectory

Scope: TypeAlias = Literal["run", "hparams-acc", "hparams-ac"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)


def check_scope(scope: str) -> Scope:
    """Refuse any other word."""
    for known in SCOPES:
        if scope == known:
            return known
    raise InputError(
        f"Expected a scope among {', '.join(SCOPES)}, but got {scope!r}.", code="unknown"
    )


def families(keys: Iterable[RunKey]) -> dict[RunKey, list[RunKey]]:
    """Runs that differ in their hparams seed alone, under the key with the smallest seed."""
    members: dict[RunKey, list[RunKey]] = {}
    for key in sorted(keys):
        members.setdefault(replace(key, hparams_seed=0), []).append(key)
    return {runs[0]: runs for runs in members.values()}


@dataclass(frozen=True, eq=False)
class PooledRuns:
    """The checkpoints of the runs of a family as one trajectory.

    Its ``steps`` number the pairs by training step, then by run, so that "the earliest" keeps its
    meaning. ``run_of`` and ``step_of`` say which pair a number stands for.
    """

    trajectory: Trajectory
    run_of: Sequence[RunKey]
    step_of: Sequence[int]


def pooled(runs: Mapping[RunKey, Trajectory]) -> PooledRuns:
    """Put the checkpoints of the runs of a family together."""
    keys = sorted(runs)
    first = runs[keys[0]]
    for key in keys[1:]:
        _check_alike(first, runs[key], key)
    pairs = sorted((int(step), key, t) for key in keys for t, step in enumerate(runs[key].steps))

    def gather(column: str) -> Any:
        return np.stack([getattr(runs[key], column)[t] for _, key, t in pairs])

    def metric(name: str) -> Any:
        return np.stack([runs[key].values[name][t] for _, key, t in pairs])

    def mean(name: str) -> Any:
        return np.stack([runs[key].pooled[name][t] for _, key, t in pairs])

    trajectory = Trajectory(
        steps=np.arange(len(pairs)),
        domains=first.domains,
        values={name: metric(name) for name in first.values},
        pooled={name: mean(name) for name in first.pooled},
        counts=first.counts,
        correct=None if first.correct is None else gather("correct"),
        diverged=gather("diverged"),
        key=keys[0],
        bins=first.bins,
        bandwidth=first.bandwidth,
    )
    return PooledRuns(trajectory, [key for _, key, _ in pairs], [step for step, _, _ in pairs])


def _check_alike(first: Trajectory, other: Trajectory, key: RunKey) -> None:
    counts = None if first.counts is None else first.counts.tolist()
    others = None if other.counts is None else other.counts.tolist()
    if first.domains != other.domains or counts != others or first.metrics != other.metrics:
        raise InputError(
            f"Expected runs validated on the same examples, but {key} and {first.key} differ: "
            "hyperparameters can be chosen among runs of one study only.",
            code="differs",
        )
