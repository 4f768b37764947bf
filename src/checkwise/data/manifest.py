"""Content hashes of many files, remembered so that opening a data set twice reads it once.

A remembered hash is used only while path, size, modification time and status-change time are all
unchanged. A program cannot set the last, so a file that another one replaced with its old times is
noticed too. Files that changed within two seconds of being hashed are hashed again: a clock may be
that coarse.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from checkwise.data.cache import make_folder
from checkwise.errors import InputError
from checkwise.store.atomic_write import write_text

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
        make_folder(manifest.parent)
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
