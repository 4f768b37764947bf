"""Reading the weights of a run; what is missing, damaged or not finite is named."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from checkwise.errors import InputError
from checkwise.extras import naming_extras
from checkwise.store import layout
from checkwise.store.done import read_recorded
from checkwise.store.run import read_run
from checkwise.store.safe_read import has_file

if TYPE_CHECKING:
    from torch import Tensor


def read_checkpoint(folder: Path, step: int) -> dict[str, Tensor]:
    """The weights of one step of a finished run, compared with their checksum."""
    if not has_file(folder, layout.checkpoint_file(step)):
        keep = read_run(folder).config.get("keep", "an unknown choice of")
        raise InputError(
            f"Expected the weights of step {step}, but {folder / layout.CHECKPOINTS} does not have "
            f'them (the run kept {keep} weights): train it with keep = "all" under [records].',
            code="missing",
        )
    return read_checked(folder, layout.checkpoint_file(step))


def read_average(folder: Path, name: str) -> dict[str, Tensor]:
    """An average that was kept while a run trained."""
    if not has_file(folder, layout.average_file(name)):
        raise InputError(
            f"Expected the average {name!r}, but {folder} was trained without it: train it with "
            f'averages = ["{name}"] under [training].',
            code="missing",
        )
    return read_checked(folder, layout.average_file(name))


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
