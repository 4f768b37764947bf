"""Archives of arrays (``.npz``): headers are checked before a value is read. Outputs in them.

A few megabytes can unpack to as many gigabytes. What the archive and its arrays declare has to
agree, and to stay within a sane ratio.

A file of outputs has ``logits`` (or ``probs``) [n, C] and ``labels`` [n]; of two classes, one
column [n] or [n, 1] for class 1 is enough. ``groups`` [n], and correctness and NLL from full
precision beside logits in half precision, may be there.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.metrics import Outcomes, binary
from checkwise.store.reading import open_regular
from checkwise.store.whole_files import write_with

OUTPUTS: Final = ("logits", "probs")
# Saved outputs and features shrink a few times; zeros shrink a thousand times.
MOST_EXPANDED: Final = 250
SMALL: Final = 256 << 20  # bytes that may be anything
_SINGLE: Final = b"\x93NUMPY"  # how a file of one array begins
# Kinds of types and dimensions of each array, and how to say both of one that may be left out.
_ARRAYS: Final = {
    "logits": ("fiu", 2, ""),
    "probs": ("f", 2, ""),
    "labels": ("iufb", 1, ""),
    "groups": ("iuUSb", 1, "whole numbers or text [n], the unit of every example"),
    "correct": ("b", 1, "true or false [n], one per example"),
    "nll": ("f", 1, "decimal numbers [n], one per example"),
}
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_READERS: Final = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class ArrayHeader(NamedTuple):
    """What the header of an array says."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@contextmanager
def open_npz(file: IO[bytes]) -> Iterator[tuple[Mapping[str, ArrayHeader], Any]]:
    """The headers of an archive, and its arrays, each of which is read when asked for."""
    try:
        headers = read_headers(file)
        with np.load(file, allow_pickle=False) as arrays:
            yield headers, arrays
    except (EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(str(error) or type(error).__name__) from None


def write_npz(file: IO[bytes], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write an archive without the time of writing, so that equal arrays give equal files."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            info = zipfile.ZipInfo(f"{name}.npy", _EPOCH)
            info.file_size = array.nbytes + 4096  # for what is beyond the 2 GB of a plain archive
            with archive.open(info, "w") as member:
                npy.write_array(member, np.ascontiguousarray(array), allow_pickle=False)


def read_headers(file: IO[bytes]) -> dict[str, ArrayHeader]:
    """The arrays of an archive by name, from their headers; no value is read."""
    headers: dict[str, ArrayHeader] = {}
    total = 0
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        packed = sum(member.compress_size for member in members)
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in headers:
                raise ValueError(f"two arrays are called {name!r:.40}")
            with archive.open(member) as opened:
                headers[name], start = _read_header(opened)
            shape, dtype = headers[name]
            size = start + dtype.itemsize * prod(shape)
            if size != member.file_size:
                raise ValueError(
                    f"{name:.40} declares shape {list(shape)!s:.40}, which does not "
                    f"fit its {member.file_size} bytes"
                )
            total += size
    if total > SMALL and total > MOST_EXPANDED * packed:
        raise ValueError(f"its {packed:,} bytes would unpack to {total:,}")
    file.seek(0)
    return headers


def _read_header(member: IO[bytes]) -> tuple[ArrayHeader, int]:
    """The header of an array file, and the position where its values begin."""
    version = npy.read_magic(member)
    if version not in _READERS:
        raise ValueError(f"an array of format {version}")
    shape, _, dtype = _READERS[version](member)
    if dtype.hasobject:
        raise ValueError("Python objects")
    return ArrayHeader(shape, dtype), member.tell()


class Saved(NamedTuple):
    """What a file holds: groups and outcomes as far as they were saved."""

    kind: str
    outputs: Any
    labels: Any
    groups: Any | None = None
    outcomes: Outcomes | None = None


def read_outputs(file: Path, kind: str | None = None, *, outputs: bool = True) -> Saved:
    """What one file holds; with ``outputs=False`` without the outputs, which are most of it."""
    with _opened(file) as saved:
        there = ", ".join(saved.files) or "(none)"
        kind = kind or next((kind for kind in OUTPUTS if kind in saved.files), None)
        if kind is None or kind not in saved.files:
            raise _unexpected(file, f"arrays {there}{f', no {kind}' if kind else ''}")
        if "labels" not in saved.files:
            raise _unexpected(file, f"arrays {there}, no labels")
        outcomes = None
        if {"correct", "nll"} <= {*saved.files}:
            outcomes = Outcomes(saved["correct"], np.asarray(saved["nll"], dtype=np.float64))
        groups = saved["groups"] if "groups" in saved.files else None
        if not outputs:
            return Saved(kind, None, saved["labels"], groups, outcomes)
        return Saved(kind, *binary(saved[kind], saved["labels"], kind), groups, outcomes)


def is_whole(file: Path) -> bool:
    """Whether a file of outputs is there and was not cut off; no value is read."""
    try:
        with file.open("rb") as opened, open_npz(opened) as (headers, _):
            return "labels" in headers and any(kind in headers for kind in OUTPUTS)
    except (OSError, ValueError):
        return False


def write_outputs(file: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write one file, whole; equal outputs give equal files."""

    def save(temporary: Path) -> None:
        with temporary.open("wb") as opened:
            write_npz(opened, arrays)

    write_with(file, save)


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    try:
        with open_regular(file) as handle:
            if handle.read(6) == _SINGLE:
                raise _unexpected(file, "a single array")
            handle.seek(0)
            with open_npz(handle) as (headers, saved):
                _check(headers, file)
                yield saved
    except InputError:
        raise
    except Exception as error:
        # Damage surfaces as a dozen kinds of error; all mean the same to the caller.
        reason = str(error).partition("\n")[0][:80] or type(error).__name__
        raise InputError(
            f"Expected an .npz file of plain arrays, but {file} cannot be read ({reason}): "
            "save it again with np.savez.",
            code="format",
        ) from None


def _check(headers: Mapping[str, ArrayHeader], file: Path) -> None:
    """Refuse what cannot be outputs and their labels, by headers alone."""
    present = {name: headers[name] for name in _ARRAYS if name in headers}
    for name, (shape, dtype) in present.items():
        kinds, ndim, said = _ARRAYS[name]
        one = name in (*OUTPUTS, "labels") and (len(shape) == 1 or shape[1:] == (1,))
        if (len(shape) == ndim or one) and dtype.kind in kinds:
            continue
        came = f"{name} of shape {shape} and type {dtype}"
        if not said:
            raise _unexpected(file, came)
        raise InputError(
            f"Expected {name} as {said}, but {file} holds {came}: save it so, or leave it out.",
            code="format",
        )
    rows = {name: header.shape[0] for name, header in present.items()}
    for name, n in rows.items():
        if n != rows.get("labels", n):
            raise InputError(
                f"Expected as many labels as {name}, but {file} holds {rows['labels']} labels and "
                f"{n} {name}: save those of the same examples.",
                code="differs",
            )


def _unexpected(file: Path, came: str) -> InputError:
    return InputError(
        f"Expected numeric arrays logits (or probs) [n, C] and labels [n], but {file} holds "
        f"{came}: save them with np.savez(file, logits=…, labels=…).",
        code="format",
    )
