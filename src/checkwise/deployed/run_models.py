"""The models of one run, wherever it was trained: files of its checkpoints, means, source logits.

A run that checkwise trained can be evaluated again, so its means have BatchNorm statistics and
source logits of their own. Of other runs there are the checkpoints, and logits where they were
saved.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from checkwise.deployed.bundle import MEMBERS, MODEL, WEIGHTS, BundleFile
from checkwise.deployed.weights_files import (
    SAFETENSORS,
    average,
    decode,
    encode,
    model_files,
    read_state,
)
from checkwise.errors import InputError, naming_extras
from checkwise.metrics import Groups
from checkwise.records import Examples, Trajectory, groups_of
from checkwise.store import (
    CHECKPOINTS_FOLDER,
    RUN_FILE,
    checkpoint_file,
    finished,
    has_file,
    read_recorded,
    read_run,
    saved_at,
    source_groups,
    source_logits,
)
from checkwise.study.baselines import BATCHNORM, averaged
from checkwise.study.folder import is_cohort, open_cohort

if TYPE_CHECKING:
    from torch import Tensor

    from checkwise.study.baselines import OpenRun

Logits: TypeAlias = Mapping[str, tuple[Any, Any]]  # source domain → logits [n, C] and labels [n]
Format: TypeAlias = Literal["safetensors", "transformers"]
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
    folders = {place.parent.parent for place in places.values() if _is_own(place)}
    if not places and has_file(path, RUN_FILE):
        folders = {path}
    if len(folders) == 1:
        return OwnModels(folders.pop(), dict(roots), int(run.steps[0]))
    saved = run.examples if run.examples is not None and run.examples.has_logits else None
    return TrainerModels(places, saved, groups_of(run))


def _is_own(place: Path) -> bool:
    return place.parent.name == CHECKPOINTS_FOLDER and has_file(place.parent.parent, RUN_FILE)


@dataclass(frozen=True)
class OwnModels:
    """A run that checkwise trained; ``first`` is its first step."""

    folder: Path
    roots: Mapping[str, str]
    first: int
    format: Format = "safetensors"

    @property
    def facts(self) -> Mapping[str, Any]:
        """The run's key, network and algorithm."""
        run = read_run(self.folder)
        return {"run": run.key.as_dict(), "network": run.config.get("network")}

    @cached_property
    def _open(self) -> OpenRun:
        """The run with its data, to evaluate models that have no saved logits."""
        from checkwise.study.baselines import OpenRuns

        place = self.folder.absolute().parents[1]
        if not is_cohort(place) or not finished(self.folder):
            raise InputError(
                f"Expected a finished run inside its study, to evaluate a model of it, but "
                f"{self.folder} is none: use the run where `checkwise study run` trained it, or "
                "leave the calibrator out (--calibrator none).",
                code="missing",
            )
        return OpenRuns(self.roots)(open_cohort(place), read_run(self.folder).key)

    def checkpoint(self, step: int, *, alone: bool) -> StoredModel:
        """The file itself, compared with its checksum."""
        content = partial(read_recorded, self.folder, checkpoint_file(step))
        place = _file_place(step, alone=alone)
        return StoredModel(place, [BundleFile(place, content)])

    @naming_extras()
    def logits(self, step: int) -> Logits:
        """Saved ones, or those that its weights give."""
        if saved_at(self.folder, [step]) or not has_file(self.folder, checkpoint_file(step)):
            return source_logits(self.folder, step)  # which says how to keep them
        content = read_recorded(self.folder, checkpoint_file(step))
        weights = decode(content, self.folder / checkpoint_file(step))
        return self._open.outputs(weights).of("source")

    @property
    @naming_extras()
    def groups(self) -> Groups | None:
        """As saved with the logits, or those of the data."""
        if saved_at(self.folder, [self.first]):
            return source_groups(self.folder, self.first)
        parts = self._open.source_parts
        known = {part.domain: part.groups for part in parts if part.groups is not None}
        return known or None

    @naming_extras()
    def mean(self, steps: Sequence[int]) -> StoredModel:
        """With BatchNorm statistics re-estimated on source training data."""
        counted = {"steps": list(steps), "multiplicities": [1] * len(steps)}
        model = averaged(self._open, counted, minibatches=BATCHNORM["minibatches"])
        content = encode(dict(model.weights or {}))
        files = [BundleFile(WEIGHTS, content)]
        return StoredModel(WEIGHTS, files, model.outputs.of("source"), model.notes)


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
        name = _file_place(step, alone=alone)
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
                "checkpoints near the best (the policy KeepFeasible, docs/prune.md), or take a "
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


def _file_place(step: int, *, alone: bool) -> str:
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
