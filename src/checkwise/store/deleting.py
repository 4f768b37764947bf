"""Deleting checkpoints: after a newer one is safe on the disk, and never half of one."""

from __future__ import annotations

import os
import shutil
import stat
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from checkwise.errors import InputError
from checkwise.store.atomic_write import sync_folder, writing

_BEING_DELETED: Final = ".being-deleted"


@dataclass(frozen=True)
class Deleted:
    """What was deleted: steps, their paths, and the bytes that this freed."""

    steps: tuple[int, ...] = ()
    paths: tuple[Path, ...] = ()
    bytes: int = 0


def delete_others(saved: Mapping[int, Path], keep: Iterable[int]) -> Deleted:
    """Delete the saved checkpoints of all steps but those to keep and the one saved last.

    The checkpoint saved last is synced first, so that a crash never takes the old one and leaves
    the new one unwritten. A folder is renamed before its files are deleted: a process that is
    killed meanwhile leaves no half checkpoint under its name.

    Args:
        saved: step → file or folder, in the order of saving; nothing else is touched.
        keep: steps that stay. The choice has to be among them.
    """
    if not saved:
        return Deleted()
    for folder in {path.parent for path in saved.values()}:
        remove_leftovers(folder)
    newest = list(saved)[-1]
    stay = {*keep, newest}
    places = [place_of(saved[step]) for step in saved if step in stay]
    going = {
        step: path
        for step, path in saved.items()
        if step not in stay and not is_shared(place_of(path), places)
    }
    if not going:
        return Deleted()
    if not os.path.lexists(saved[newest]):
        raise InputError(
            f"Expected the checkpoint of step {newest}, which was saved last, but there is nothing "
            f"at {saved[newest]}: nothing was deleted."
        )
    sync_checkpoint(saved[newest])
    freed = 0
    for path in going.values():
        freed += size_of(path)
        delete_checkpoint(path)
    return Deleted(tuple(going), tuple(going.values()), freed)


def delete_checkpoint(path: Path) -> None:
    """Delete a file or a folder; one that is gone already is fine."""
    with writing(path.parent, then="what is left of it is deleted with the next"):
        try:
            if not stat.S_ISDIR(path.lstat().st_mode):
                path.unlink(missing_ok=True)
                return
            hidden = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}{_BEING_DELETED}")
            path.rename(hidden)
        except FileNotFoundError:
            return
        sync_folder(path.parent)
        shutil.rmtree(hidden)


def remove_leftovers(folder: Path) -> None:
    """Delete what a killed process was deleting in a folder."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(_BEING_DELETED) and entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)


def sync_checkpoint(path: Path) -> None:
    """Flush a file, or everything in a folder, to the disk, and its name too."""
    with writing(path.parent, then="nothing was deleted"):
        for folder, _, files in os.walk(path):
            for name in files:
                _sync_file(Path(folder, name))
            sync_folder(Path(folder))
        if not path.is_dir():
            _sync_file(path)
        sync_folder(path.parent)


def size_of(path: Path) -> int:
    """Bytes that deleting a file or a folder frees; a file with another name elsewhere frees none.

    Example:
        >>> size_of(Path("there is no such file"))
        0
    """
    files = [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
    size = 0
    for file in files or [path]:
        with suppress(OSError):
            status = file.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
                size += status.st_size
    return size


def _sync_file(path: Path) -> None:
    if path.is_symlink() and not path.exists():
        return
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def place_of(path: Path) -> Path:
    """Where a path leads, behind links."""
    return Path(os.path.realpath(path))


def is_shared(place: Path, kept: Iterable[Path]) -> bool:
    """Whether a checkpoint that stays is the same file, in this folder, or around it."""
    return any(place.is_relative_to(other) or other.is_relative_to(place) for other in kept)
