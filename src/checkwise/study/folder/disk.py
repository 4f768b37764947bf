"""The operations on files that attempts at a run consist of.

Each is one step that other machines see whole or not at all, except ``remove_tree``. The tests of
``attempts`` replace this module by a simulated disk, and try every order of the steps.
"""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from checkwise.store import has_file as has_file
from checkwise.store import open_file, write_bytes, write_with
from checkwise.store import sync_folder as sync_folder

_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)


def names(folder: Path) -> list[str] | None:
    """What is in a folder, sorted; None where there is no folder."""
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return None


def size(folder: Path, name: str) -> int:
    """Bytes of a file; -1 where there is none."""
    return (folder / name).lstat().st_size if has_file(folder, name) else -1


def read_start(folder: Path, name: str, length: int) -> bytes:
    with open_file(folder, name) as file:
        return file.read(length)


def make_folders_in(folder: Path, name: str) -> Path:
    """Make the folders of a file inside ``folder``, which must be there; the file's path.

    The folder of an attempt that another worker took away is not made again.
    """
    place = folder
    for part in Path(name).parts[:-1]:
        place /= part
        place.mkdir(exist_ok=True)
    return folder / name


def write_file(folder: Path, name: str, content: bytes) -> None:
    write_bytes(make_folders_in(folder, name), content)


def make_folder(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)


def link(source: Path, folder: Path, name: str) -> None:
    """Give a file of one folder the same name in another, or copy it where disks have no links.

    Both must be there. Only for files that are replaced as a whole, and never written in place.
    """
    old, new = source / name, make_folders_in(folder, name)
    try:
        os.link(old, new, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        write_with(new, lambda temporary: shutil.copyfile(old, temporary))


def rename(old: Path, new: Path) -> None:
    """Give a folder another name, and make it last.

    Raises:
        OSError: a folder of that name is there and holds something, or ``old`` is gone. A file
            server may also report one of these although it has done as asked.
    """
    os.rename(old, new)
    sync_folder(new.parent)


def remove_file(path: Path) -> None:
    path.unlink(missing_ok=True)


def remove_tree(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)


def remove_folder(path: Path) -> None:
    with suppress(OSError):
        path.rmdir()
