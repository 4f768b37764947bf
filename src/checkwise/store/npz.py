"""Archives of arrays (``.npz``), looked at before they are read.

A few megabytes can unpack to as many gigabytes. What the archive and its arrays declare has to
agree, and to stay within a sane ratio, before a single value is read.
"""

from __future__ import annotations

import zipfile
from math import prod
from typing import IO, Any, Final, NamedTuple

import numpy as np
from numpy.lib import format as npy

# Saved outputs and features shrink a few times; zeros shrink a thousand times.
MOST_EXPANDED: Final = 250
SMALL: Final = 256 << 20  # bytes that may be anything
_READERS: Final = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class Declared(NamedTuple):
    """What the header of an array says."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def declared(file: IO[bytes]) -> dict[str, Declared]:
    """The arrays of an archive by name, from their headers; no value is read.

    Raises:
        ValueError: headers that contradict each other, Python objects, or arrays that would take
            hundreds of times the size of the file.
        zipfile.BadZipFile, EOFError: damage.
    """
    found: dict[str, Declared] = {}
    total = 0
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        packed = sum(member.compress_size for member in members)
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in found:
                raise ValueError(f"two arrays are called {name!r:.40}")
            with archive.open(member) as opened:
                found[name], start = read_header(opened)
            size = start + found[name].dtype.itemsize * prod(found[name].shape)
            if size != member.file_size:
                raise ValueError(
                    f"{name:.40} declares shape {list(found[name].shape)!s:.40}, which does not "
                    f"fit its {member.file_size} bytes"
                )
            total += size
    if total > SMALL and total > MOST_EXPANDED * packed:
        raise ValueError(f"its {packed:,} bytes would unpack to {total:,}")
    file.seek(0)
    return found


def read_header(member: IO[bytes]) -> tuple[Declared, int]:
    """The header of an array file, and the position where its values begin."""
    version = npy.read_magic(member)
    if version not in _READERS:
        raise ValueError(f"an array of format {version}")
    shape, _, dtype = _READERS[version](member)
    if dtype.hasobject:
        raise ValueError("Python objects")
    return Declared(shape, dtype), member.tell()
