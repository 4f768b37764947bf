"""A folder that appears whole or not at all, for a cohort or a copy that is made in one go."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from checkwise.errors import InputError
from checkwise.store.whole_files import sync_folder, sync_tree, write_with, writing

KERAS: Final = (".keras", ".weights.h5")  # endings without which Keras neither saves nor loads
MOST_FILES: Final = 100_000
_BUILDING: Final = ".building"
_CHUNK: Final = 1 << 24  # bytes
_HERE, _SWAP = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


@contextmanager
def new_folder(out: Path, *, replace: bool = False) -> Iterator[Path]:
    """A folder to fill, which takes the name ``out`` when the block ends without an error.

    A process that is killed inside the block leaves nothing under that name, or what was there.
    With ``replace`` a folder of that name is replaced as a whole.
    """
    replace = replace and out.is_dir() and not out.is_symlink()
    _check_movable(out) if replace else check_new(out)
    out = Path(os.path.abspath(out))
    _clear_killed(out)
    then = "what was there is as it was" if replace else "nothing was left there"
    with writing(out.parent, then=then), _workplace(out) as place:
        yield place
        sync_tree(place)
        _put_in_place(place, out, replace=replace)
        with writing(out.parent, then=f"the new folder is at {out}, but a power cut may lose it"):
            sync_folder(out.parent)


def check_new(out: Path) -> None:
    """Refuse a place where something is already."""
    if out.is_symlink() or (out.exists() and (not out.is_dir() or any(out.iterdir()))):
        kind = "not empty" if out.is_dir() and not out.is_symlink() else "a file or a link"
        raise InputError(
            f"Expected a new folder, but {out} is {kind}: choose another.", code="exists"
        )
    _check_movable(out)


def _check_movable(out: Path) -> None:
    if out.exists() and (out.samefile(Path.cwd()) or os.path.ismount(out)):
        raise InputError(
            f"Expected a new folder, but {out} is where you are or a mount point, which cannot be "
            "put in place in one step: name a folder inside it.",
            code="exists",
        )


def _clear_killed(out: Path) -> None:
    """Remove what attempts left that were killed; a living one holds a lock on its folder.

    What is not surely such a folder stays: its whole name and all that is in it must be ours.
    """
    ours = re.compile(rf"\.{re.escape(out.name)}\.[a-z0-9_]{{8}}{re.escape(_BUILDING)}")
    with suppress(OSError):
        for around in [path for path in out.parent.iterdir() if ours.fullmatch(path.name)]:
            with suppress(OSError), locked(around):
                if set(os.listdir(around)) <= {out.name}:
                    shutil.rmtree(around)


@contextmanager
def _workplace(out: Path) -> Iterator[Path]:
    """A folder beside ``out`` to build it in, locked for as long as the attempt lives."""
    out.parent.mkdir(parents=True, exist_ok=True)
    around = Path(mkdtemp(prefix=f".{out.name}.", suffix=_BUILDING, dir=out.parent))
    try:
        with locked(around):
            place = around / out.name
            place.mkdir()
            yield place
    finally:
        shutil.rmtree(around, ignore_errors=True)


@contextmanager
def locked(folder: Path) -> Iterator[int]:
    """Hold the lock on a folder; the open file that holds it, which a child may hold too."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield file
    finally:
        os.close(file)


def _put_in_place(place: Path, out: Path, *, replace: bool) -> None:
    if replace:
        if not _swapped(place, out):
            raise InputError(
                f"Expected a disk that can replace {out} in one step, but this one cannot swap two "
                "names: remove the folder first, or choose another name.",
                code="exists",
            )
        return
    try:
        place.replace(out)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise InputError(
                f"Expected a new folder, but another process put one at {out} meanwhile: run the "
                "same command again.",
                code="exists",
            ) from None
        raise


def _swapped(place: Path, out: Path) -> bool:
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    names = (_HERE, os.fsencode(place), _HERE, os.fsencode(out), _SWAP)
    return rename is not None and rename(*names) == 0


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
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Copy a file or a folder with all that is in it.

    A folder there is replaced as a whole if asked for, a file always. ``ready`` is called when
    everything is copied, before the copy takes its name; ``progress`` with bytes copied and in all.
    """
    folders, files = tree_of(source) if source.is_dir() else ([], [_file(source, "", source)])
    total, free = sum(file.size for file in files), shutil.disk_usage(out.absolute().parent).free
    if total > free:
        raise InputError(
            f"Expected {total / 1e9:.2f} GB of free space for a copy of {source}, but "
            f"{out.absolute().parent} has {free / 1e9:.2f} GB: free some space, or choose another "
            "disk.",
            code="system",
        )

    def copy(place: Path) -> None:
        copied = 0
        for file in files:
            with (place / file.name).open("xb") as target:
                for chunk in _chunks(file.path):
                    target.write(chunk)
                    copied += len(chunk)
                    progress(copied, total)
        ready()

    if not source.is_dir():
        write_with(out, copy)
        return
    with new_folder(out, replace=replace) as place:
        for name in folders:
            (place / name).mkdir()
        copy(place)


def tree_of(folder: Path) -> tuple[list[str], list[Source]]:
    """The folders in a folder, outer ones first, and its files; links as files they lead to."""
    root = folder.resolve()
    inner: list[str] = []
    files: list[Source] = []
    for place, folders, names in os.walk(root, onerror=_refuse_folder):
        for path in (Path(place, name) for name in (*folders, *names)):
            if path.is_symlink():
                _check_link(path, root)
            below = str(path.relative_to(root))
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
        error.filename = str(path)
        _refuse_folder(error)


def _refuse_folder(error: OSError) -> None:
    raise InputError(
        f"Expected a readable checkpoint, but {error.filename} cannot be read ({error.strerror}): "
        "check its permissions.",
        code="system",
    ) from None


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
