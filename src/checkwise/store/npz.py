"""Archives of arrays (``.npz``), with their headers checked before a value is read.

A few megabytes can unpack to as many gigabytes. What the archive and its arrays declare has to
agree, and to stay within a sane ratio.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from typing import IO, Any, Final, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

# Saved outputs and features shrink a few times; zeros shrink a thousand times.
MOST_EXPANDED: Final = 250
SMALL: Final = 256 << 20  # bytes that may be anything
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_READERS: Final = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class ArrayHeader(NamedTuple):
    """What the header of an array says."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@contextmanager
def open_npz(file: IO[bytes]) -> Iterator[tuple[Mapping[str, ArrayHeader], Any]]:
    """The headers of an archive, and its arrays, each of which is read when asked for.

    Raises:
        ValueError: the archive is damaged, or :func:`read_headers` refuses it.
    """
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
    """The arrays of an archive by name, from their headers; no value is read.

    Raises:
        ValueError: headers that contradict each other, Python objects, or arrays that would take
            hundreds of times the size of the file.
        zipfile.BadZipFile, EOFError: damage.
    """
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
