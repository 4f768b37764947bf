"""The cache of decoded images and features, where one process at a time builds a file."""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import shutil
import socket
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from checkwise.errors import CheckwiseWarning, InputError
from checkwise.store import sync_folder, write_text


def cache_dir(override: Path | str | None = None) -> Path:
    """Return ``override``, else ``$CHECKWISE_CACHE``, else ``~/.cache/checkwise``; create it."""
    folder = cache_place(override)
    make_cache_folder(folder)
    return folder


def cache_place(override: Path | str | None = None) -> Path:
    """Where the cache is, or would be created."""
    chosen = override or os.environ.get("CHECKWISE_CACHE") or Path.home() / ".cache" / "checkwise"
    return Path(chosen).expanduser().absolute()


def make_cache_folder(folder: Path) -> None:
    """Create ``folder`` in the cache; refuses a cache that cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"Expected a cache folder that can be written, but got {error.strerror} in {folder}: "
            "set the environment variable CHECKWISE_CACHE to another folder.",
            code="system",
        ) from error


@contextmanager
def sole_builder(path: Path) -> Iterator[Path]:
    """Wait until no other process builds ``path``, then yield the partial file to build in.

    The lock only saves double work; the last rename alone guarantees that a finished file is whole.
    Under the lock the partial file has a fixed name, so that a killed build is continued by the
    next one. The host is part of that name because some network file systems lock per host only.
    Where the file system cannot lock at all, the name is unique and nothing is continued.
    """
    import fcntl

    make_cache_folder(path.parent)
    with path.with_name(f"{path.name}.lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            owner = socket.gethostname().replace(os.sep, "_")
        except OSError:
            owner = secrets.token_hex(8)
        yield path.with_name(f"{path.name}.{owner}.partial")


Progress = Callable[[int, int], None]
"""Called with (done, total) of the current pass now and then, always from one thread."""

SCHEMA = 1
_COARSE_CLOCK_NS = 2_000_000_000

_Stamp = tuple[int, int, int]


def content_hashes(
    root: Path,
    files: Sequence[str],
    *,
    cache: Path,
    workers: int | None = None,
    progress: Progress | None = None,
) -> list[str]:
    """Return the SHA-256 of each of ``files`` (relative to ``root``), in order."""
    place = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:32]
    manifest = cache / "manifests" / f"{place}.json"
    known = _read(manifest)
    hashed_at = time.time_ns()
    stamps = [_stamp(root / file) for file in files]
    hashes: list[str | None] = [
        known[file][1] if file in known and known[file][0] == stamp else None
        for file, stamp in zip(files, stamps, strict=True)
    ]
    unknown = [index for index, value in enumerate(hashes) if value is None]
    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        fresh = pool.map(lambda index: _hash_file(root / files[index]), unknown)
        for done, (index, value) in enumerate(zip(unknown, fresh, strict=True), start=1):
            hashes[index] = value
            if progress is not None and (done % 100 == 0 or done == len(unknown)):
                progress(done, len(unknown))
    complete = [value for value in hashes if value is not None]
    if unknown:
        entries = [
            [file, *stamp, value]
            for file, stamp, value in zip(files, stamps, complete, strict=True)
            if max(stamp[1:]) < hashed_at - _COARSE_CLOCK_NS
        ]
        make_cache_folder(manifest.parent)
        content = {"schema": SCHEMA, "files": entries, "checksum": _checksum(entries)}
        write_text(manifest, json.dumps(content))
    return complete


def _read(manifest: Path) -> dict[str, tuple[_Stamp, str]]:
    # Only a shortcut: anything unexpected means hashing again, never an error.
    try:
        stored = json.loads(manifest.read_bytes())
        if stored["schema"] != SCHEMA or stored["checksum"] != _checksum(stored["files"]):
            return {}
        return {
            file: ((size, modified, changed), value)
            for file, size, modified, changed, value in stored["files"]
        }
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def _checksum(entries: list[Any]) -> str:
    return hashlib.sha256(json.dumps(entries).encode()).hexdigest()


def _stamp(path: Path) -> _Stamp:
    try:
        status = path.stat()
    except OSError as error:
        raise _unreadable(path, error) from error
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _hash_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(
        f"Expected a readable file, but got {error.strerror} in {str(path)!r}: "
        "check its permissions and what it links to, or remove it.",
        code="system",
    )


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
            os.replace(partial, path)
            sync_folder(path.parent)
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
    if any(_row_checksum(rows[row].data) != checksums[row] for row in sample):
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
            done[row] = _row_checksum(content) == stored[row]
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
        checksums = np.array([_row_checksum(row.data) for row in rows], dtype=_CHECKSUM_TYPE)
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

    def _offset(self, row: int) -> int:
        return len(self._header) + row * self._row_bytes

    def _write_at(self, content: bytes, offset: int) -> None:
        view = memoryview(content)
        while view:
            written = os.pwrite(self._file, view, offset)
            view, offset = view[written:], offset + written


def _row_checksum(row: bytes | memoryview) -> int:
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
