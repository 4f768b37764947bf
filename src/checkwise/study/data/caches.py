"""The cache of decoded images and features, where one process at a time builds a file."""

from __future__ import annotations

import fcntl
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

Progress = Callable[[int, int], None]
"""Called with (done, total) of the current pass now and then, always from one thread."""
Rows = NDArray[Any]


def cache_place() -> Path:
    """Where the cache is, or would be created: ``$CHECKWISE_CACHE``, or ``~/.cache/checkwise``."""
    chosen = os.environ.get("CHECKWISE_CACHE") or Path.home() / ".cache" / "checkwise"
    return Path(chosen).expanduser().absolute()


def cache_dir(*parts: str) -> Path:
    """The cache, or a folder below it; it is created."""
    folder = cache_place().joinpath(*parts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"Expected a cache folder that can be written, but got {error.strerror} in {folder}: "
            "set the environment variable CHECKWISE_CACHE to another folder.",
            code="system",
        ) from error
    return folder


SCHEMA = 2
_COARSE_CLOCK_NS = 2_000_000_000


def content_hashes(
    root: Path, files: Sequence[str], *, progress: Progress | None = None
) -> list[str]:
    """The SHA-256 of each of ``files`` (relative to ``root``), in order."""
    place = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:32]
    manifest = cache_dir("manifests") / f"{place}.json"
    known = _read(manifest)
    hashed_at = time.time_ns()
    try:
        stamps = [_stamp(root / file) for file in files]
        unknown = [
            file
            for file, stamp in zip(files, stamps, strict=True)
            if known.get(file, [])[:-1] != stamp
        ]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            fresh = pool.map(_hash_file, (root / file for file in unknown))
            for done, (file, value) in enumerate(zip(unknown, fresh, strict=True), start=1):
                known[file] = [value]
                if progress is not None and (done % 100 == 0 or done == len(unknown)):
                    progress(done, len(unknown))
    except OSError as error:
        raise InputError(
            f"Expected a readable file, but got {error.strerror} in {str(error.filename)!r}: "
            "check its permissions and what it links to, or remove it.",
            code="system",
        ) from error
    if unknown:
        settled = {
            file: [*stamp, known[file][-1]]
            for file, stamp in zip(files, stamps, strict=True)
            if max(stamp[1:]) < hashed_at - _COARSE_CLOCK_NS
        }
        write_text(manifest, json.dumps({"schema": SCHEMA, "files": settled}))
    return [known[file][-1] for file in files]


def _read(manifest: Path) -> dict[str, list[Any]]:
    # Only a shortcut: anything unexpected means hashing again, never an error.
    try:
        stored = json.loads(manifest.read_bytes())
        return dict(stored["files"]) if stored["schema"] == SCHEMA else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cached_rows(
    path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], fill: Callable[[RowWriter], None]
) -> Rows:
    """The rows stored at ``path``; ``fill`` builds them where they are absent or damaged.

    A damaged file gives a warning. ``fill`` writes every row that the writer reports as missing.
    Other processes that ask for the same file meanwhile wait for it.
    """

    def stored() -> Rows | None:
        rows = open_rows(path, shape[0])
        return rows if rows is not None and (rows.shape, rows.dtype) == (shape, dtype) else None

    cached = stored()
    if cached is not None:
        return cached
    with _sole_builder(path) as partial:
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
    assert cached is not None, f"what was just written to {path} cannot be read"
    return cached


@contextmanager
def _sole_builder(path: Path) -> Iterator[Path]:
    """Wait until no other process builds ``path``, then yield the partial file to build in.

    The lock only saves double work; the last rename alone guarantees that a finished file is whole.
    Under the lock the partial file has a fixed name, so that a killed build is continued by the
    next one. The host is part of that name because some network file systems lock per host only.
    Where the file system cannot lock at all, the name is unique and nothing is continued.
    """
    with path.with_name(f"{path.name}.lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            owner = socket.gethostname().replace(os.sep, "_")
        except OSError:
            owner = secrets.token_hex(8)
        yield path.with_name(f"{path.name}.{owner}.partial")


_CHECKSUM = np.dtype("<u4")  # of every row, after the rows


def open_rows(path: Path, n: int) -> Rows | None:
    """The row file at ``path``, mapped read-only; None if it is absent or a row is damaged."""
    try:
        with path.open("rb") as file:
            npy.read_magic(file)
            shape, fortran_order, dtype = npy.read_array_header_1_0(file)
            offset = file.tell()
    except (OSError, ValueError, EOFError):
        return None
    end = offset + n * _row_bytes(shape, dtype)
    size = end + n * _CHECKSUM.itemsize
    if shape[:1] != (n,) or fortran_order or n == 0 or path.stat().st_size != size:
        return None
    rows = np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape)
    checksums = np.fromfile(path, dtype=_CHECKSUM, offset=end)
    whole = all(_checksum(row.data) == known for row, known in zip(rows, checksums, strict=True))
    return rows if whole else None


class RowWriter:
    """Fills a row file in any order and from any thread, without holding it in memory."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.path = path
        self._shape = shape
        self._dtype = dtype
        buffer = io.BytesIO()
        fields = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(buffer, fields)
        header = buffer.getvalue()
        self._rows_at = len(header)
        self._row_bytes = _row_bytes(shape, dtype)
        self._checksums_at = len(header) + shape[0] * self._row_bytes
        size = self._checksums_at + shape[0] * _CHECKSUM.itemsize
        _check_free_space(path, size)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        begun = os.fstat(self._file).st_size == size
        if not begun or os.pread(self._file, len(header), 0) != header:
            os.ftruncate(self._file, 0)
            os.ftruncate(self._file, size)
            self._write_at(header, 0)

    def close(self) -> None:
        os.close(self._file)

    def missing(self) -> NDArray[np.int64]:
        length = self._shape[0] * _CHECKSUM.itemsize
        stored = np.frombuffer(os.pread(self._file, length, self._checksums_at), _CHECKSUM)
        # An untouched row has checksum 0; looking at the others only spares reading a sparse file.
        done = stored != 0
        for row in np.flatnonzero(done).tolist():
            start = self._rows_at + row * self._row_bytes
            content = os.pread(self._file, self._row_bytes, start)
            done[row] = _checksum(content) == stored[row]
        return np.flatnonzero(~done)

    def write(self, first: int, rows: Rows) -> None:
        assert rows.shape[1:] == self._shape[1:]
        rows = np.ascontiguousarray(rows, dtype=self._dtype)
        self._write_at(rows.tobytes(), self._rows_at + first * self._row_bytes)
        checksums = np.array([_checksum(row.data) for row in rows], dtype=_CHECKSUM)
        self._write_at(checksums.tobytes(), self._checksums_at + first * _CHECKSUM.itemsize)

    def finish(self) -> None:
        """Force everything to disk; refuses if a row is missing."""
        assert not len(self.missing())
        os.fsync(self._file)

    def _write_at(self, content: bytes, offset: int) -> None:
        view = memoryview(content)
        while view:
            written = os.pwrite(self._file, view, offset)
            view, offset = view[written:], offset + written


def _row_bytes(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    return dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))


def _checksum(row: bytes | memoryview) -> int:
    return zlib.crc32(row) or 1  # 0 marks a row that was never written


def _check_free_space(path: Path, size: int) -> None:
    already = path.stat().st_blocks * 512 if path.exists() else 0
    free = shutil.disk_usage(path.parent).free
    if free < size - already:
        raise InputError(
            f"Expected {size / 1e9:.1f} GB of free disk, but got {free / 1e9:.1f} GB in "
            f"{path.parent}: make room, or set CHECKWISE_CACHE to a larger disk.",
            code="system",
        )
