"""Copying a checkpoint, a file or a whole folder: the copy appears complete or not at all."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from checkwise.errors import InputError
from checkwise.store.atomic_write import write_with
from checkwise.store.new_folder import new_folder

MOST_FILES: Final = 100_000
KERAS: Final = (".keras", ".weights.h5")  # endings without which Keras neither saves nor loads
_CHUNK: Final = 1 << 24  # bytes
# Called with bytes copied and bytes in all.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Source:
    """One file to copy: where it is, its name inside the copy, and its size in bytes."""

    path: Path
    name: str
    size: int


def copy_checkpoint(
    source: Path,
    out: Path,
    *,
    replace: bool = False,
    ready: Callable[[], None] = lambda: None,
    progress: Progress = lambda done, total: None,
) -> None:
    """Copy a file or a folder with all that is in it.

    Args:
        source: the checkpoint.
        out: where the copy goes.
        replace: whether a folder there is replaced as a whole; a file always is.
        ready: called when everything is copied, before the copy takes its name.
        progress: called with bytes copied and in all.

    Raises:
        InputError: the folder holds something that cannot be copied, or the disk is too full.
        StoreError: the folder around ``out`` cannot be written.
    """
    folders, files = tree_of(source) if source.is_dir() else ([], [_file(source, "", source)])
    total = sum(file.size for file in files)
    _check_space(source, total, out)
    copied = 0

    def copy(file: Source, target: Path) -> None:
        nonlocal copied
        with target.open("xb") as writing:
            for chunk in _chunks(file.path):
                writing.write(chunk)
                copied += len(chunk)
                progress(copied, total)
            writing.flush()
            os.fsync(writing.fileno())

    if not source.is_dir():

        def write(temporary: Path) -> None:
            copy(files[0], temporary)
            ready()

        write_with(out, write)
        return
    with new_folder(out, replace=replace) as place:
        for name in folders:
            (place / name).mkdir()
        for file in files:
            copy(file, place / file.name)
        ready()


def tree_of(folder: Path) -> tuple[list[str], list[Source]]:
    """The folders in a folder, outer ones first, and its files; links as files they lead to."""
    root = folder.resolve()
    inner: list[str] = []
    files: list[Source] = []
    for place, folders, names in os.walk(root, onerror=_refuse_folder):
        for name in (*folders, *names):
            path = Path(place, name)
            below = str(path.relative_to(root))
            if path.is_symlink():
                _check_link(path, root)
            if path.is_dir():
                inner.append(below)
            else:
                files.append(_file(path, below, folder))
        if len(inner) + len(files) > MOST_FILES:
            raise InputError(
                f"Expected a checkpoint of at most {MOST_FILES:,} files, but {folder} holds more: "
                "copy it yourself.",
                code="unsupported",
            )
    return inner, files


def _chunks(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                yield chunk
    except OSError as error:
        raise _unreadable(path, error) from None


def _refuse_folder(error: OSError) -> None:
    raise _unreadable(Path(error.filename), error)


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(
        f"Expected a readable checkpoint, but {path} cannot be read ({error.strerror}): check its "
        "permissions.",
        code="system",
    )


def _check_link(path: Path, root: Path) -> None:
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):  # it leads nowhere, or to itself
        target = path.parent.parent / path.name
    if not target.is_relative_to(root) or target.is_dir():
        raise InputError(
            f"Expected a checkpoint that is whole in its folder, but {path} is a link to "
            "something that is not a file inside it: put the file itself there.",
            code="outside",
        )


def _file(path: Path, name: str, checkpoint: Path) -> Source:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise InputError(
            f"Expected files in the checkpoint {checkpoint}, but {path} is none: move it away.",
            code="outside",
        )
    return Source(path, name, status.st_size)


def _check_space(source: Path, size: int, out: Path) -> None:
    free = shutil.disk_usage(out.absolute().parent).free
    if size > free:
        raise InputError(
            f"Expected {size / 1e9:.2f} GB of free space for a copy of {source}, but "
            f"{out.absolute().parent} has {free / 1e9:.2f} GB: free some space, or choose another "
            "disk.",
            code="system",
        )
