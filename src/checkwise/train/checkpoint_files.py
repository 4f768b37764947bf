"""Writes the weights and logits of one checkpoint; a file appears whole or not at all."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from checkwise.extras import naming_extras
from checkwise.store import layout
from checkwise.store.atomic_write import make_folders_in, write_bytes
from checkwise.train.config import RunConfig
from checkwise.train.evaluation import Outputs, Role, validation_roles

_EPOCH = (1980, 1, 1, 0, 0, 0)


@naming_extras()
def write_weights(folder: Path, step: int, state: Mapping[str, Tensor]) -> None:
    """The deployable weights of a step as safetensors."""
    from safetensors.torch import save

    path = make_folders_in(folder, layout.checkpoint_file(step))
    tensors = {name: tensor.cpu().contiguous() for name, tensor in state.items()}
    write_bytes(path, save(tensors, metadata={"step": str(step)}))


def write_predictions(folder: Path, step: int, outputs: Outputs, config: RunConfig) -> None:
    """Logits, labels and groups by domain: ``<domain>.logits`` and so on in an npz.

    Validation sets and held-out domains go to separate files.
    """
    held_out = tuple(outputs.of("heldout"))
    parts: list[tuple[Role, Sequence[str]]] = [
        *((role, tuple(outputs.of(role))) for role in validation_roles(config)),
        *(("heldout", (domain,)) for domain in held_out),
    ]
    for name, part in zip(predictions_files(step, config, held_out), parts, strict=False):
        _write(make_folders_in(folder, name), outputs, *part)


def predictions_files(step: int, config: RunConfig, held_out: Sequence[str]) -> list[str]:
    """The files of a step's predictions: the source domains' first, then each held-out domain's."""
    if config.logits == "none":
        return []
    source = [layout.source_predictions_file(step), layout.groups_predictions_file(step)]
    source = source[: len(validation_roles(config))]
    if config.logits == "source":
        return source
    return [*source, *(layout.heldout_predictions_file(domain, step) for domain in held_out)]


def _write(path: Path, outputs: Outputs, role: Role, domains: Sequence[str]) -> None:
    arrays: dict[str, NDArray[np.generic]] = {}
    logits, groups = outputs.of(role), outputs.groups(role)
    for domain in domains:
        arrays[f"{domain}.logits"], arrays[f"{domain}.labels"] = logits[domain]
        if domain in groups:
            arrays[f"{domain}.groups"] = groups[domain].astype(np.int32)
    write_bytes(path, _npz(arrays))


def _npz(arrays: Mapping[str, NDArray[np.generic]]) -> bytes:
    """An npz without the time of writing, so that equal arrays give equal files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, np.ascontiguousarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _EPOCH), content.getvalue())
    return buffer.getvalue()
