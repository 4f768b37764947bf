"""The mean of several checkpoints, one in memory at a time."""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from checkwise.errors import InputError, naming_extras
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
        if times < 1:
            raise InputError(f"Expected multiplicities of at least 1, but got {times}.")
        if not first:
            first = dict(tensors)
            _check_names(first, parameters)
            excess = {name: torch.zeros_like(first[name], dtype=wide) for name in parameters}
        else:
            _check_alike(first, tensors, parameters)
            for name in parameters:
                difference = tensors[name].to(wide) - first[name].to(wide)
                excess[name].add_(difference, alpha=times)
        total += times
    if not total:
        raise InputError("Expected at least one checkpoint to average, but got none.", code="empty")
    means = {
        name: (first[name].to(wide) + excess[name] / total).to(first[name].dtype)
        for name in parameters
    }
    return {**{name: tensor.clone() for name, tensor in first.items()}, **means}


def _check_names(tensors: Mapping[str, Tensor], parameters: Collection[str]) -> None:
    absent = sorted(set(parameters) - set(tensors))
    if absent:
        raise InputError(
            f"Expected a checkpoint with {absent[0]!r}, but it has {len(tensors)} other tensors: "
            "average checkpoints of one network.",
            code="differs",
        )
    whole = [name for name in parameters if not tensors[name].is_floating_point()]
    if whole:
        raise InputError(
            f"Expected floating-point parameters, but {whole[0]!r} is not one.", code="unsupported"
        )


def _check_alike(
    first: Mapping[str, Tensor], other: Mapping[str, Tensor], parameters: Collection[str]
) -> None:
    _check_names(other, parameters)
    for name in parameters:
        if other[name].shape != first[name].shape:
            raise InputError(
                f"Expected checkpoints of one network, but {name!r} has the shapes "
                f"{tuple(first[name].shape)} and {tuple(other[name].shape)}: leave one out.",
                code="differs",
            )


def read_checkpoint(folder: Path, step: int) -> dict[str, Tensor]:
    """The weights of one step of a finished run, compared with their checksum."""
    if not has_file(folder, checkpoint_file(step)):
        keep = read_run(folder).config.get("keep", "an unknown choice of")
        raise InputError(
            f"Expected the weights of step {step}, but {folder / CHECKPOINTS_FOLDER} does not have "
            f'them (the run kept {keep} weights): train it with keep = "all" under [records].',
            code="missing",
        )
    return read_checked(folder, checkpoint_file(step))


def read_average(folder: Path, name: str) -> dict[str, Tensor]:
    """An average that was kept while a run trained."""
    if not has_file(folder, average_file(name)):
        raise InputError(
            f"Expected the average {name!r}, but {folder} was trained without it: train it with "
            f'averages = ["{name}"] under [training].',
            code="missing",
        )
    return read_checked(folder, average_file(name))


def read_checked(folder: Path, name: str) -> dict[str, Tensor]:
    """A weights file of a run, read once for both its checksum and its tensors."""
    return decode(read_recorded(folder, name), folder / name)


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


SAFETENSORS: Final = ".safetensors"
# Where trainers put the weights among other things: Lightning and timm, fastai, many tutorials.
STATES: Final = ("state_dict", "model_state_dict", "model_state", "model", "net", "network")
EMA: Final = ("state_dict_ema", "ema", "ema_state_dict", "model_ema")
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
    content = _load(path)
    state = _state_of(content, path)
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
            f"Expected tensors and plain containers, but {path} holds {shown(reason)}, which is "
            "not loaded because it could run code: save its state dict alone "
            "(`torch.save(model.state_dict(), …)`), or copy the file with `checkwise select "
            "--copy-to`.",
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
    places = content if isinstance(content, Mapping) else {}
    averages = [name for name in EMA if _is_state(places.get(name))]
    states = [name for name in STATES if _is_state(places.get(name))]
    if len(states) == 1 and not averages:
        state: Mapping[str, Tensor] = places[states[0]]
        return state
    both = [*states, *averages]
    if both:
        raise InputError(
            f"Expected one model, but {path} holds {', '.join(both)}: save the one that was "
            "evaluated to a file of its own."
        )
    raise InputError(
        f"Expected a state dict, by itself or under {', '.join(STATES)}, but {path} holds "
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
