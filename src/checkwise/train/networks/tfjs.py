"""Reads the weights of a TensorFlow.js layers model: a manifest and shards, nothing executed."""

from __future__ import annotations

import json
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError

LARGEST_MODEL = 1 << 24  # bytes of model.json
LARGEST_SHARD = 1 << 26  # bytes; converters write shards of 4 MB
_FLOAT = np.dtype("<f4")

Read = Callable[[str, int], bytes]


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
