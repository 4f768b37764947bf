"""What a method that makes a model has to say: its parameters, its plan and how it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from checkwise.records import RunKey, Trajectory
from checkwise.store import layout
from checkwise.store.run import read_trajectory
from checkwise.weights.derived import digest_of

if TYPE_CHECKING:
    from torch import Tensor

    from checkwise.train.evaluation import Outputs
    from checkwise.weights.evaluate import OpenRun

ALONE: tuple[str, ...] = tuple(RunKey.__dataclass_fields__)


@dataclass(frozen=True)
class StoredRun:
    """A finished run on disk; only what selection may read of it is opened."""

    cohort: Path
    key: RunKey
    folder: Path

    @cached_property
    def trajectory(self) -> Trajectory:
        """Its source-validation records."""
        return read_trajectory(self.folder)

    @cached_property
    def source_digest(self) -> str:
        """SHA-256 of those records."""
        return digest_of(self.folder, layout.SOURCE)


@dataclass(frozen=True)
class Plan:
    """What will go into a result, as plain values; nothing is loaded yet."""

    inputs: Mapping[str, Any]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Made:
    """A model: its outputs on every part, and its weights where it has any of its own."""

    outputs: Outputs
    weights: Mapping[str, Tensor] | None
    notes: tuple[str, ...] = ()


Planner: TypeAlias = Callable[[Sequence[StoredRun], Mapping[str, Any]], Plan]
Maker: TypeAlias = Callable[
    ["Sequence[OpenRun]", Mapping[str, Any], Mapping[str, Any]], Mapping[RunKey, Made]
]


@dataclass(frozen=True)
class Recipe:
    """How to make one method's models.

    Args:
        plan: decides from logs alone what goes in; it must be cheap.
        make: one model for every run of a group, evaluated on that run's own splits.
        params: all parameters with their defaults.
        share: the coordinates that the runs of a group have in common; by default all of them,
            so that every run is its own group.
        varied: the seeds of which a study needs more than one; empty where one run is enough.
        requires: methods whose results have to exist for every run of the group.
    """

    plan: Planner
    make: Maker
    params: Mapping[str, Any] = field(default_factory=dict)
    share: tuple[str, ...] = ALONE
    varied: str = ""
    requires: tuple[str, ...] = ()
