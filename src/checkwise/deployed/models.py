"""The models of one run, wherever it was trained: files of its checkpoints, means, source logits.

A run that checkwise trained can be evaluated again, so its means have BatchNorm statistics and
source logits of their own. Of other runs there are the checkpoints, and logits where they were
saved. Weights are safetensors, or what ``torch.load(weights_only=True)`` takes; nothing else.
"""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from checkwise.deployed.bundle import MEMBERS, MODEL, WEIGHTS, BundleFile
from checkwise.errors import InputError, naming_extras
from checkwise.metrics import Groups
from checkwise.records import Examples, Trajectory, groups_of
from checkwise.store import (
    CHECKPOINTS_FOLDER,
    KERAS,
    Source,
    average_file,
    checkpoint_file,
    has_file,
    open_regular,
    read_recorded,
    read_run,
    tree_of,
)
from checkwise.words import shown

if TYPE_CHECKING:
    from torch import Tensor

Logits: TypeAlias = Mapping[str, tuple[Any, Any]]  # source domain → logits [n, C] and labels [n]
Format: TypeAlias = Literal["safetensors", "transformers"]
# Packages that open models of runs of their own: `models_of(path, run, places, roots)`, or None.
OPENERS = ["checkwise.study.baselines"]
SAFETENSORS: Final = ".safetensors"
STALE: Final = (
    "BatchNorm statistics are those of the first member: re-estimate them on training data before "
    "use (torch.optim.swa_utils.update_bn)"
)
_STATISTICS: Final = ("running_mean", "running_var")  # of BatchNorm: floats, but no parameters
# Where trainers put the weights among other things: Lightning and timm, fastai, many tutorials.
_STATES: Final = ("state_dict", "model_state_dict", "model_state", "model", "net", "network")
_EMA: Final = ("state_dict_ema", "ema", "ema_state_dict", "model_ema")
_TORCH: Final = (".pt", ".pth", ".ckpt", ".bin", ".tar")
# What a transformers checkpoint holds beside the model; arguments and states are pickles.
_OF_TRAINING: Final = (
    "optimizer.*",
    "scheduler.*",
    "scaler.*",
    "rng_state*",
    "training_args.bin",
    "trainer_state.json",
    "zero_to_fp32.py",
    "latest",
)
_SHARDED: Final = ("global_step*/*", "optimizer_*/*", "pytorch_model_fsdp*/*")


@dataclass(frozen=True, eq=False)
class StoredModel:
    """A model ready to be put into a bundle, at ``place`` in it.

    Logits are on validation; None where nobody evaluated it.
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

    @property
    def groups(self) -> Groups | None:
        """The independent units of the source-validation examples, where they are known."""

    def checkpoint(self, step: int, *, alone: bool) -> StoredModel:
        """The model of one step, without logits."""

    def logits(self, step: int) -> Logits | None:
        """Its logits on source validation, if they can be had."""

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
    """Checkpoints that some trainer wrote, and outputs that were saved or predicted beside them."""

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
        return StoredModel(name, [BundleFile(name, lambda: encode(read_state(place)))])

    def logits(self, step: int) -> Logits | None:
        """Those of a predictions folder, or that live selection kept; None of probabilities."""
        return None if self.saved is None else self.saved.logits(step)

    @naming_extras()
    def mean(self, steps: Sequence[int]) -> StoredModel:
        """The mean as it is: there is nothing here to evaluate it with."""
        places = [self._place(step) for step in steps]
        if self.format != "transformers":
            tensors, notes = _mean(map(read_state, places))
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
    """Where a bundle holds the weights of a step."""
    return WEIGHTS if alone else f"{MEMBERS}/{step:06d}{SAFETENSORS}"


def _inside(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        raise InputError(
            f"Expected the same files of weights in every member, but {folder} has no {name}: "
            "average checkpoints of one training.",
            code="differs",
        )
    return folder / name


def _mean(states: Iterable[Mapping[str, Tensor]]) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The mean of every parameter, and what to know about the rest."""
    members = iter(states)
    first = next(members)
    parameters = [
        name
        for name, tensor in first.items()
        if tensor.is_floating_point() and not name.endswith(_STATISTICS)
    ]
    tensors = average(((state, 1) for state in chain([first], members)), parameters=parameters)
    stale = any(name.endswith(_STATISTICS) for name in first)
    return tensors, (STALE,) if stale else ()


def average(
    checkpoints: Iterable[tuple[Mapping[str, Tensor], int]], *, parameters: Collection[str]
) -> dict[str, Tensor]:
    """Average ``parameters`` in float64, each checkpoint counted as often as it says.

    All other tensors (BatchNorm statistics, counters) are those of the first checkpoint. The mean
    is taken of the differences to the first, so equal checkpoints give exactly themselves.
    """
    import torch

    wide = torch.float64
    first: dict[str, Tensor] = {}
    excess: dict[str, Tensor] = {}
    total = 0
    for tensors, times in checkpoints:
        _check_alike(first or tensors, tensors, parameters)
        if not first:
            first = dict(tensors)
            excess = {name: torch.zeros_like(first[name], dtype=wide) for name in parameters}
        else:
            for name in parameters:
                difference = tensors[name].to(wide) - first[name].to(wide)
                excess[name].add_(difference, alpha=times)
        total += times
    means = {
        name: (first[name].to(wide) + excess[name] / total).to(first[name].dtype)
        for name in parameters
    }
    return {**{name: tensor.clone() for name, tensor in first.items()}, **means}


def _check_alike(
    first: Mapping[str, Tensor], other: Mapping[str, Tensor], parameters: Collection[str]
) -> None:
    for name in parameters:
        if name not in other:
            raise InputError(
                f"Expected a checkpoint with {name!r}, but it has {len(other)} other tensors: "
                "average checkpoints of one network.",
                code="differs",
            )
        if other[name].shape != first[name].shape:
            raise InputError(
                f"Expected checkpoints of one network, but {name!r} has the shapes "
                f"{tuple(first[name].shape)} and {tuple(other[name].shape)}: leave one out.",
                code="differs",
            )


def read_checkpoint(folder: Path, step: int) -> dict[str, Tensor]:
    """The weights of one step of a finished run, compared with their checksum."""
    return decode(checkpoint_content(folder, step), folder / checkpoint_file(step))


def checkpoint_content(folder: Path, step: int) -> bytes:
    """The same as they are in their file."""
    name = checkpoint_file(step)
    if not has_file(folder, name):
        keep = read_run(folder).config.get("keep", "an unknown choice of")
        raise InputError(
            f"Expected the weights of step {step}, but {folder / CHECKPOINTS_FOLDER} does "
            f'not have them (the run kept {keep} weights): train it with keep = "all" under '
            "[records].",
            code="missing",
        )
    return read_recorded(folder, name)


def read_average(folder: Path, name: str) -> dict[str, Tensor]:
    """An average that was kept while a run trained, compared with its checksum."""
    file = average_file(name)
    if not has_file(folder, file):
        raise InputError(
            f"Expected the average {name!r}, but {folder} was trained without it: train it with "
            f'averages = ["{name}"] under [training].',
            code="missing",
        )
    return decode(read_recorded(folder, file), folder / file)


@naming_extras()
def decode(content: bytes, path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return dict(load(content))
    except (SafetensorError, ValueError, RuntimeError) as error:
        raise InputError(
            f"Expected a safetensors file, but got: {error} in {path}: restore it.", code="format"
        ) from None


@naming_extras()
def encode(tensors: Mapping[str, Tensor]) -> bytes:
    """The content of a safetensors file."""
    from safetensors.torch import save

    return bytes(save({name: tensor.cpu().contiguous() for name, tensor in tensors.items()}))


def readable(path: Path) -> bool:
    """Whether a checkpoint, by its name, may hold weights of PyTorch: a file, or a folder."""
    return path.is_dir() or path.suffix in (SAFETENSORS, *_TORCH)


def read_state(path: Path) -> dict[str, Tensor]:
    """The state dict in a file, with every tensor in memory of its own."""
    if path.suffix == SAFETENSORS:
        with open_regular(path) as file:
            return decode(file.read(), path)
    if path.name.endswith(KERAS):
        raise InputError(
            f"Expected weights of PyTorch, but {path} is a checkpoint of Keras: load it, or the "
            "mean of several, with checkwise.integrations.keras.load_chosen, and calibrate it as "
            "docs/keras.md says.",
            code="unsupported",
        )
    if path.suffix not in _TORCH:
        raise InputError(
            f"Expected weights of PyTorch ({SAFETENSORS}, {', '.join(_TORCH)}), but got {path}: "
            "`checkwise select --copy-to` copies any checkpoint as it is.",
            code="unsupported",
        )
    state = _state_of(_load(path), path)
    return {name: tensor.detach().clone() for name, tensor in state.items()}


@naming_extras()
def _load(path: Path) -> Any:
    import torch

    try:
        # timm saves its command line beside the weights.
        with open_regular(path) as file, torch.serialization.safe_globals([argparse.Namespace]):
            return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        reason = str(error).partition("GLOBAL ")[2].split(" ")[0] or "more than tensors"
        raise InputError(
            f"Expected tensors and plain containers, but {path} holds {shown(reason)}, which could "
            "run code: save its state dict alone (`torch.save(model.state_dict(), …)`), or copy "
            "the file with `checkwise select --copy-to`.",
            code="unsupported",
        ) from None
    except Exception as error:  # what a damaged file leads to inside torch has no common kind
        raise InputError(
            f"Expected a checkpoint of PyTorch, but got: {error!s:.200} in {path}: restore the "
            "file, or choose another checkpoint.",
            code="format",
        ) from None


def _state_of(content: Any, path: Path) -> Mapping[str, Tensor]:
    if _is_state(content):
        return dict(content)
    places: Mapping[Any, Any] = content if isinstance(content, Mapping) else {}
    found = [name for name in (*_STATES, *_EMA) if _is_state(places.get(name))]
    if len(found) == 1 and found[0] in _STATES:
        state: Mapping[str, Tensor] = places[found[0]]
        return state
    if found:
        raise InputError(
            f"Expected one model, but {path} holds {', '.join(found)}: save the one that was "
            "evaluated to a file of its own."
        )
    raise InputError(
        f"Expected a state dict, by itself or under {', '.join(_STATES)}, but {path} holds "
        f"{shown(list(places) if places else type(content).__name__)}: save `model.state_dict()`.",
        code="format",
    )


def _is_state(content: Any) -> bool:
    import torch

    return (
        isinstance(content, Mapping)
        and len(content) > 0
        and all(isinstance(name, str) for name in content)
        and all(isinstance(value, torch.Tensor) for value in content.values())
    )


def model_files(folder: Path) -> list[Source]:
    """The files of a transformers checkpoint that ``from_pretrained`` reads.

    States of the optimiser, the schedule and random numbers stay behind.
    """
    _, files = tree_of(folder)
    if any(fnmatch(file.name, pattern) for file in files for pattern in _SHARDED):
        raise InputError(
            f"Expected a checkpoint with the whole model, but {folder} is split over processes: "
            "save the model with `trainer.save_model()`.",
            code="unsupported",
        )
    of_model = [
        file
        for file in sorted(files, key=lambda file: file.name)
        if not any(fnmatch(file.name, pattern) for pattern in _OF_TRAINING)
        and not any(part.startswith(".") for part in file.name.split("/"))
    ]
    if not any(fnmatch(file.name, "*.safetensors") for file in of_model):
        raise InputError(
            f"Expected a folder with the weights as safetensors, as transformers saves them, but "
            f"{folder} has none: `checkwise select --copy-to` copies any checkpoint as it is.",
            code="missing",
        )
    return of_model
