"""How a model is made from the checkpoints of runs: its parameters, its plan, the making.

A recipe has no name of its own: ``checkwise.study.method_table`` names recipes. Modules that
hold one import torch only where a model is made, so that looking a method up stays light.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from checkwise.errors import InputError
from checkwise.records import RunKey, Trajectory
from checkwise.store import SOURCE_FILE, read_run
from checkwise.study.baselines.derived import digest_of

if TYPE_CHECKING:
    from torch import Tensor

    from checkwise.study.baselines.evaluate import OpenRun
    from checkwise.study.train import Outputs

Need: TypeAlias = Literal["logs", "logits", "weights", "data", "training"]
Needs: TypeAlias = frozenset[Need]
FROM_WEIGHTS: Final[Needs] = frozenset({"logs", "weights", "data"})
FROM_TRAINING: Final[Needs] = frozenset({"weights", "data", "training"})

EVERY_COORDINATE: tuple[str, ...] = tuple(RunKey.__dataclass_fields__)
# Source minibatches that BatchNorm statistics are re-estimated on; 0 keeps the buffers.
BATCHNORM: Mapping[str, Any] = {"minibatches": 500}


@dataclass(frozen=True)
class StoredRun:
    """A finished run on disk; only what selection may read of it is opened."""

    cohort: Path
    key: RunKey
    folder: Path

    @cached_property
    def trajectory(self) -> Trajectory:
        return read_run(self.folder).trajectory()

    @cached_property
    def source_digest(self) -> str:
        return digest_of(self.folder, SOURCE_FILE)


@dataclass(frozen=True)
class Plan:
    """What will go into a result, as plain values; nothing is loaded yet."""

    inputs: Mapping[str, Any]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Model:
    """A model: its outputs on every part, and its weights where it has any of its own."""

    outputs: Outputs
    weights: Mapping[str, Tensor] | None
    notes: tuple[str, ...] = ()


Values: TypeAlias = Mapping[str, Any]
Planner: TypeAlias = Callable[[Sequence[StoredRun], Values], Plan]
Maker: TypeAlias = Callable[["Sequence[OpenRun]", Values, Values], Mapping[RunKey, Model]]


@dataclass(frozen=True)
class Recipe:
    """How to make one method's models."""

    summary: str  # one line on the model that it makes
    plan: Planner  # decides from logs alone what goes in; it must be cheap
    make: Maker  # one model for every run of a group, evaluated on that run's own splits
    params: Mapping[str, Any] = field(default_factory=dict)  # all parameters with their defaults
    needs: Needs = FROM_WEIGHTS  # what has to be there; ``training`` where runs are trained for it
    # the coordinates that the runs of a group have in common; by default all of them, so that every
    # run is its own group
    share: tuple[str, ...] = EVERY_COORDINATE
    varied: str = (
        ""  # the seeds of which a study needs more than one; empty where one run is enough
    )
    # method → recipe of results that have to exist for every run of the group
    requires: Mapping[str, Recipe] = field(default_factory=dict)

    @classmethod
    def of_each(
        cls,
        summary: str,
        plan: Callable[[StoredRun, Values], Plan],
        make: Callable[[OpenRun, Values, Values], Model],
        params: Values,
        needs: Needs = FROM_WEIGHTS,
    ) -> Recipe:
        """A recipe that makes a model of every run by itself."""
        return cls(
            summary,
            lambda runs, params: plan(runs[0], params),
            lambda runs, inputs, params: {runs[0].key: make(runs[0], inputs, params)},
            params,
            needs,
        )

    def variant(self, summary: str, **params: Any) -> Recipe:
        """The same recipe with other defaults."""
        return replace(self, summary=summary, params={**self.params, **params})

    def complete(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """All parameters with defaults filled in; refuses ones the recipe does not take."""
        unknown = [name for name in params if name not in self.params]
        if unknown:
            takes = ", ".join(self.params) or "none"
            raise InputError(
                f"Method {method} has no parameter {unknown[0]!r}; it takes: {takes}.",
                code="unknown",
            )
        return {**self.params, **params}

    def group_of(self, key: RunKey) -> tuple[Any, ...]:
        """What the runs of one group have in common with this one."""
        return tuple(getattr(key, name) for name in self.share)
