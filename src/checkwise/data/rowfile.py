"""Large arrays on disk, one checksum per row, memory-mapped and shared by all processes.

A row file is a plain ``.npy`` file followed by one CRC-32 per row, which NumPy's own reader
ignores. A row without a matching checksum was never finished: that is how a killed build is
continued and how a damaged file is noticed.
"""

from __future__ import annotations

import io
import os
import shutil
import warnings
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from checkwise.data.cache import publish, sole_builder
from checkwise.errors import CheckwiseWarning, InputError

Rows = NDArray[Any]

_CHECKSUM_TYPE = np.dtype("<u4")
_SAMPLED_ROWS = 64


def cached_rows(
    path: Path,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    fill: Callable[[RowWriter], None],
    *,
    verify: bool = True,
) -> Rows:
    """Return the rows stored at ``path``; build them with ``fill`` where absent or damaged.

    A damaged file gives a warning. Without ``verify`` only a sample of its rows is checked.
    ``fill`` writes every row the writer reports as missing. Other processes that ask for the same
    file meanwhile wait for it instead of building it again.
    """

    def stored() -> Rows | None:
        rows = open_rows(path, shape[0], verify=verify)
        return rows if rows is not None and (rows.shape, rows.dtype) == (shape, dtype) else None

    cached = stored()
    if cached is not None:
        return cached
    with sole_builder(path) as partial:
        cached = stored()
        if cached is None:
            if path.exists():
                warnings.warn(
                    f"The cached file {path} is damaged; checkwise makes it again from the data.",
                    CheckwiseWarning,
                    stacklevel=2,
                )
            with closing(RowWriter(partial, shape, dtype)) as rows:
                fill(rows)
                rows.finish()
            publish(partial, path)
            cached = stored()
    if cached is None:
        raise InputError(
            f"Expected the file just written to be readable, but got a damaged one in {path}: "
            "check the disk, or set CHECKWISE_CACHE to a folder on another one.",
            code="system",
        )
    return cached


def open_rows(path: Path, n: int, *, verify: bool = False) -> Rows | None:
    """Map the row file at ``path`` read-only, or return None if it is absent or damaged.

    Header and size are always checked, and the checksums of 64 rows spread over the file;
    ``verify`` checks all rows.
    """
    try:
        with path.open("rb") as file:
            npy.read_magic(file)
            shape, fortran_order, dtype = npy.read_array_header_1_0(file)
            offset = file.tell()
    except (OSError, ValueError, EOFError):
        return None
    row_bytes = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
    expected_size = offset + n * (row_bytes + _CHECKSUM_TYPE.itemsize)
    if shape[:1] != (n,) or fortran_order or n == 0 or path.stat().st_size != expected_size:
        return None
    rows = np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape)
    checksums = np.fromfile(path, dtype=_CHECKSUM_TYPE, offset=offset + n * row_bytes)
    step = 1 if verify else max(1, n // _SAMPLED_ROWS)
    sample = {*range(0, n, step), n - 1}
    if any(_checksum(rows[row].data) != checksums[row] for row in sample):
        return None
    return rows


class RowWriter:
    """Fills a row file in any order and from any thread, without holding it in memory."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.path = path
        self.shape = shape
        self.dtype = dtype
        self._header = _header(shape, dtype)
        self._row_bytes = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
        self._checksums_at = len(self._header) + shape[0] * self._row_bytes
        size = self._checksums_at + shape[0] * _CHECKSUM_TYPE.itemsize
        _check_free_space(path, size)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        started = os.fstat(self._file).st_size == size
        if not started or os.pread(self._file, len(self._header), 0) != self._header:
            os.ftruncate(self._file, 0)
            os.ftruncate(self._file, size)
            self._write_at(self._header, 0)

    def close(self) -> None:
        """Close the file; use ``contextlib.closing``."""
        os.close(self._file)

    def missing(self) -> NDArray[np.int64]:
        """Return the rows that are not finished yet."""
        stored = np.frombuffer(
            os.pread(self._file, self.shape[0] * _CHECKSUM_TYPE.itemsize, self._checksums_at),
            _CHECKSUM_TYPE,
        )
        # An untouched row has checksum 0; looking at the others only spares reading a sparse file.
        done = stored != 0
        for row in np.flatnonzero(done):
            content = os.pread(self._file, self._row_bytes, self._offset(int(row)))
            done[row] = _checksum(content) == stored[row]
        return np.flatnonzero(~done)

    def write(self, first: int, rows: Rows) -> None:
        """Store consecutive ``rows`` from index ``first`` on."""
        if rows.shape[1:] != self.shape[1:] or not 0 <= first <= self.shape[0] - len(rows):
            raise InputError(
                f"Expected rows of shape {self.shape[1:]} inside 0..{self.shape[0]}, but got "
                f"{rows.shape} at row {first} in {self.path.name}: every row needs the same shape."
            )
        rows = np.ascontiguousarray(rows, dtype=self.dtype)
        self._write_at(rows.tobytes(), self._offset(first))
        checksums = np.array([_checksum(row.data) for row in rows], dtype=_CHECKSUM_TYPE)
        self._write_at(checksums.tobytes(), self._checksums_at + first * _CHECKSUM_TYPE.itemsize)

    def finish(self) -> None:
        """Force everything to disk; refuses if a row is missing."""
        missing = self.missing()
        if len(missing):
            raise InputError(
                f"Expected {self.shape[0]} finished rows, but got {len(missing)} unfinished ones "
                f"(first: {missing[0]}) in {self.path.name}: run again to continue."
            )
        os.fsync(self._file)

    def discard(self) -> None:
        """Remove the unfinished file, when continuing it could never help."""
        self.path.unlink(missing_ok=True)

    def _offset(self, row: int) -> int:
        return len(self._header) + row * self._row_bytes

    def _write_at(self, content: bytes, offset: int) -> None:
        view = memoryview(content)
        while view:
            written = os.pwrite(self._file, view, offset)
            view, offset = view[written:], offset + written


def _checksum(row: bytes | memoryview) -> int:
    # 0 marks a row that was never written.
    return zlib.crc32(row) or 1


def _header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    buffer = io.BytesIO()
    fields = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(buffer, fields)
    return buffer.getvalue()


def _check_free_space(path: Path, size: int) -> None:
    already = path.stat().st_blocks * 512 if path.exists() else 0
    free = shutil.disk_usage(path.parent).free
    if free < size - already:
        raise InputError(
            f"Expected {size / 1e9:.1f} GB of free disk, but got {free / 1e9:.1f} GB in "
            f"{path.parent}: make room, or set CHECKWISE_CACHE to a larger disk.",
            code="system",
        )
