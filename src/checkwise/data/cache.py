"""The cache of decoded images and features, where one process at a time builds a file."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from checkwise.errors import InputError
from checkwise.store.atomic_write import sync_folder


def cache_dir(override: Path | str | None = None) -> Path:
    """Return ``override``, else ``$CHECKWISE_CACHE``, else ``~/.cache/checkwise``; create it."""
    folder = cache_place(override)
    make_folder(folder)
    return folder


def cache_place(override: Path | str | None = None) -> Path:
    """Where the cache is, or would be created."""
    chosen = override or os.environ.get("CHECKWISE_CACHE") or Path.home() / ".cache" / "checkwise"
    return Path(chosen).expanduser().absolute()


def make_folder(folder: Path) -> None:
    """Create ``folder`` in the cache; refuses a cache that cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"Expected a cache folder that can be written, but got {error.strerror} in {folder}: "
            "set the environment variable CHECKWISE_CACHE to another folder.",
            code="system",
        ) from error


def publish(partial: Path, path: Path) -> None:
    """Give a finished, synced file its final name, durably."""
    os.replace(partial, path)
    sync_folder(path.parent)


@contextmanager
def sole_builder(path: Path) -> Iterator[Path]:
    """Wait until no other process builds ``path``, then yield the partial file to build in.

    The lock only saves double work; ``publish`` alone guarantees that a finished file is whole.
    Under the lock the partial file has a fixed name, so that a killed build is continued by the
    next one. The host is part of that name because some network file systems lock per host only.
    Where the file system cannot lock at all, the name is unique and nothing is continued.
    """
    import fcntl

    make_folder(path.parent)
    with path.with_name(f"{path.name}.lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            owner = socket.gethostname().replace(os.sep, "_")
        except OSError:
            owner = secrets.token_hex(8)
        yield path.with_name(f"{path.name}.{owner}.partial")
