"""Reading files inside a folder: regular files at plain names, so that nothing leads elsewhere.

A name that was read from a file is checked here before anything is opened. Links, pipes, sockets
and devices are refused, and opening never waits for a writer.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from math import isinf
from pathlib import Path
from typing import Any, Final, TypeAlias

from checkwise.errors import InputError

LONGEST_NAME: Final = 255  # bytes; what file systems allow
_KINDS: Final = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}

Identity: TypeAlias = tuple[int, int, int, int]


def is_plain_name(name: object) -> bool:
    """Whether something read from a file is a single name that stays inside its folder.

    Example:
        >>> [is_plain_name(name) for name in ("PACS-ERM", "../x", "/dev/zero", "", 3)]
        [True, False, False, False, False]
    """
    if not isinstance(name, str) or name in ("", ".", "..") or any(c in name for c in "/\\\0"):
        return False
    try:
        return len(name.encode()) <= LONGEST_NAME
    except UnicodeEncodeError:
        return False


def is_plain_path(name: object) -> bool:
    """Whether something read from a file is a relative path of plain names."""
    return isinstance(name, str) and all(is_plain_name(part) for part in name.split("/"))


def has_file(folder: Path, name: str) -> bool:
    """Whether a regular file is there; anything else at that place is refused."""
    try:
        return bool(_stat(folder, name))
    except (FileNotFoundError, NotADirectoryError):
        return False


@contextmanager
def open_file(folder: Path, name: str) -> Iterator[BufferedReader]:
    """A regular file inside a folder, opened for reading."""
    _stat(folder, name)
    path = folder / name
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(file, "rb") as opened:
        _check_kind(os.fstat(file), path)
        yield opened


def open_regular(path: Path) -> BufferedReader:
    """A regular file that a person may have put there, also behind a link, opened for reading."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(file, "rb")


def read_file(folder: Path, name: str) -> bytes:
    """The content of a regular file inside a folder; raises as ``open_file`` does."""
    with open_file(folder, name) as file:
        return file.read()


def identity(folder: Path, name: str) -> Identity:
    """What changes when a file is replaced or written; a cache may use it as its key."""
    status = _stat(folder, name)
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def check_tree(folder: Path) -> None:
    """Refuse a folder that holds anything but folders and regular files, or is a link itself.

    What is written and deleted inside it then stays inside it.
    """
    check_folder(folder)
    for place, folders, files in os.walk(folder):
        for name in folders:
            check_folder(Path(place, name))
        for name in files:
            path = Path(place, name)
            with suppress(FileNotFoundError):  # another process works there too
                _check_kind(path.lstat(), path)


def check_folder(folder: Path) -> None:
    """Refuse anything but a folder; nothing at all is fine."""
    try:
        kind = stat.S_IFMT(folder.lstat().st_mode)
    except FileNotFoundError:
        return
    if kind != stat.S_IFDIR:
        raise InputError(
            f"Expected a folder, but {folder} is {_KINDS.get(kind, 'not a folder')}: move it away, "
            "or put the folder itself there.",
            code="outside",
        )


def _stat(folder: Path, name: str) -> os.stat_result:
    if not is_plain_path(name):
        raise InputError(
            f"Expected the name of a file inside {folder}, but got {name!r:.80}: the file that "
            "names it is damaged.",
            code="outside",
        )
    place = Path(folder)
    *folders, last = name.split("/")
    for part in folders:
        place /= part
        if not stat.S_ISDIR(place.lstat().st_mode):
            check_folder(place)
    status = (place / last).lstat()
    _check_kind(status, place / last)
    return status


def _check_kind(status: os.stat_result, path: Path) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        raise InputError(
            f"Expected a regular file, but {path} is {_KINDS.get(kind, 'a device')}: put the file "
            "itself there.",
            code="outside",
        )


_LARGEST: Final = 2**63 - 1
_MAY_OVERFLOW: Final = re.compile(r"[eE]\+?\d{3}|\d{300}")


def parse(content: bytes) -> Any:
    """The value of a JSON text."""
    text = content.decode()
    decoder = _CAREFUL_DECODER if _MAY_OVERFLOW.search(text) else _DECODER
    try:
        value = decoder.decode(text)
    except RecursionError:
        raise ValueError("brackets nested too deep") from None
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()  # refuses half of a surrogate pair
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r:.40} twice")
    return content


def _whole(digits: str) -> int:
    if len(digits) > 18 and (len(digits) > 20 or abs(int(digits)) > _LARGEST):
        raise ValueError(f"an integer of {len(digits)} characters")
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if isinf(value):
        raise ValueError(f"{digits:.40}, which is beyond 64 bits")
    return value


def _constant(name: str) -> Any:
    raise ValueError(f"{name}, which JSON does not have")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_whole, parse_constant=_constant
)
_CAREFUL_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_whole, parse_float=_finite, parse_constant=_constant
)
