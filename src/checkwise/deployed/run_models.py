"""The models of one run, wherever it was trained: files of its checkpoints, means, source logits.

A run that checkwise trained can be evaluated again, so its means have BatchNorm statistics and
source logits of their own. Of other runs there are the checkpoints, and logits where they were
saved.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from checkwise.deployed.bundle import MEMBERS, MODEL, WEIGHTS, BundleFile
from checkwise.deployed.weights_files import (
    SAFETENSORS,
    average,
    encode,
    model_files,
    read_state,
)
from checkwise.errors import InputError, naming_extras
from checkwise.metrics import Groups
from checkwise.records import Examples, Trajectory, groups_of

if TYPE_CHECKING:
    from torch import Tensor


Logits: TypeAlias = Mapping[str, tuple[Any, Any]]  # source domain → logits [n, C] and labels [n]
Format: TypeAlias = Literal["safetensors", "transformers"]
# Packages that open models of runs of their own: `models_of(path, run, places, roots)`, or None.
OPENERS = ["checkwise.study.baselines"]
_STATISTICS = ("running_mean", "running_var")  # of BatchNorm: no parameters, though they are floats
STALE = (
    "BatchNorm statistics are those of the first member: re-estimate them on training data before "
    "use (torch.optim.swa_utils.update_bn)"
)


@dataclass(frozen=True, eq=False)
class StoredModel:
    """A model ready to be put into a bundle.

    Args:
        place: the file or folder inside the bundle.
        files: its files.
        logits: on source validation; None where nobody evaluated it.
        notes: what to know about it.
    """

    place: str
    files: Sequence[BundleFile]
    logits: Logits | None = None
    notes: tuple[str, ...] = ()


class RunModels(Protocol):
    """What ``deploy`` asks of a run."""

    @property
    def format(self) -> Format:
        """How weights are kept."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """What is known of the network and the data, as plain values."""

    def checkpoint(self, step: int, *, alone: bool) -> StoredModel:
        """The model of one step, without logits."""

    def logits(self, step: int) -> Logits | None:
        """Its logits on source validation, if they can be had."""

    @property
    def groups(self) -> Groups | None:
        """The independent units of the source-validation examples, where they are known."""

    def mean(self, steps: Sequence[int]) -> StoredModel:
        """One model whose parameters are the mean over some steps."""


def models_of(path: Path, run: Trajectory, roots: Mapping[str, str]) -> RunModels:
    """The models of a run that was read from ``path``; ``roots`` says where data sets lie."""
    places = {
        int(step): Path(place)
        for step, place in zip(run.steps, run.paths or (), strict=False)
        if place is not None
    }
    for opener in OPENERS:
        opened: RunModels | None = import_module(opener).models_of(path, run, places, roots)
        if opened is not None:
            return opened
    saved = run.examples if run.examples is not None and run.examples.has_logits else None
    return TrainerModels(places, saved, groups_of(run))


@dataclass(frozen=True)
class TrainerModels:
    """Checkpoints that some trainer wrote, and outputs that were saved or predicted beside them.

    Args:
        places: step → file or folder.
        saved: what every example of source validation said, where logits were saved.
        groups: the independent units of its examples, where they are known.
    """

    places: Mapping[int, Path]
    saved: Examples | None
    groups: Groups | None = None

    @property
    def format(self) -> Format:
        """By what the first checkpoint is."""
        folder = next((place.is_dir() for place in self.places.values()), False)
        return "transformers" if folder else "safetensors"

    @property
    def facts(self) -> Mapping[str, Any]:
        """Nothing is known."""
        return {}

    def checkpoint(self, step: int, *, alone: bool) -> StoredModel:
        """The whole folder of transformers; of a file the state dict."""
        place = self._place(step)
        if self.format == "transformers":
            name = MODEL if alone else f"{MEMBERS}/checkpoint-{step}"
            files = [BundleFile(f"{name}/{file.name}", file.path) for file in model_files(place)]
            return StoredModel(name, files)
        name = file_place(step, alone=alone)
        return StoredModel(name, [BundleFile(name, partial(_encoded, place))])

    def logits(self, step: int) -> Logits | None:
        """Those of a predictions folder, or that live selection kept; None of probabilities."""
        return None if self.saved is None else self.saved.logits(step)

    @naming_extras()
    def mean(self, steps: Sequence[int]) -> StoredModel:
        """The mean as it is: there is nothing here to evaluate it with."""
        places = [self._place(step) for step in steps]
        if self.format != "transformers":
            tensors, notes = _mean(read_state(place) for place in places)
            return StoredModel(WEIGHTS, [BundleFile(WEIGHTS, encode(tensors))], None, notes)
        files, notes = [], ()
        for file in model_files(places[0]):
            name = f"{MODEL}/{file.name}"
            if not file.name.endswith(SAFETENSORS):
                files.append(BundleFile(name, file.path))
                continue
            tensors, notes = _mean(read_state(_inside(place, file.name)) for place in places)
            files.append(BundleFile(name, encode(tensors)))
        return StoredModel(MODEL, files, None, notes)

    def _place(self, step: int) -> Path:
        place = self.places.get(step)
        if place is None or not place.exists():
            raise InputError(
                f"Expected the checkpoint of step {step}, but "
                f"{'none is known' if place is None else f'there is nothing at {place}'}: keep the "
                "checkpoints near the best (the policy KeepFeasible, docs/live.md), or take a "
                "smaller tolerance (--delta-pp).",
                code="missing",
            )
        if place.is_dir() != (self.format == "transformers"):
            raise InputError(
                f"Expected checkpoints of one kind, but {place} is not what the others are: move "
                "it away.",
                code="differs",
            )
        return place


def file_place(step: int, *, alone: bool) -> str:
    return WEIGHTS if alone else f"{MEMBERS}/{step:06d}{SAFETENSORS}"


def _inside(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        raise InputError(
            f"Expected the same files of weights in every member, but {folder} has no {name}: "
            "average checkpoints of one training.",
            code="differs",
        )
    return folder / name


def _encoded(place: Path) -> bytes:
    return encode(read_state(place))


def _mean(states: Iterable[Mapping[str, Tensor]]) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The mean of every parameter, and what to know about the rest."""
    members = iter(states)
    first = next(members)
    names = _parameters(first)
    tensors = average(((state, 1) for state in chain([first], members)), parameters=names)
    stale = any(name.endswith(_STATISTICS) for name in first)
    return tensors, (STALE,) if stale else ()


def _parameters(state: Mapping[str, Tensor]) -> Collection[str]:
    return [
        name
        for name, tensor in state.items()
        if tensor.is_floating_point() and not name.endswith(_STATISTICS)
    ]
