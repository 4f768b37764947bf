"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path


def write_with(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, then put it in place.

    The temporary file is flushed to disk before the rename, and the folder after it, so that a
    crash leaves either the old file or the new one.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write text as UTF-8."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes."""
    write_with(path, lambda temporary: _write(temporary, content))


def copy_file(source: Path, path: Path) -> None:
    """Copy the content of a file."""
    write_with(path, lambda temporary: _copy(source, temporary))


def sync_folder(folder: Path) -> None:
    """Make renames and new names in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy(source: Path, path: Path) -> None:
    shutil.copyfile(source, path)


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
