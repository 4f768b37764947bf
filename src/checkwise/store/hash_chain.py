"""An append-only log of JSON lines in which every line names the SHA-256 of the line before it.

Nobody can change, remove or insert a line without rewriting every line after it. The chain has no
secret, so somebody can rewrite them all: a digest of the last line, kept elsewhere, covers every
line up to it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from checkwise.errors import CheckwiseWarning, InputError
from checkwise.store.atomic_write import sync_folder
from checkwise.store.journal import append_whole, encode_line

_PLAINLY: Final = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
LARGEST: Final = 2**28  # bytes; ten thousand runs take about a megabyte a line


@dataclass(frozen=True)
class Line:
    """What one line says, and the SHA-256 of its bytes."""

    content: Mapping[str, Any]
    digest: str


def read_chain(path: Path) -> tuple[tuple[Line, ...], bytes]:
    """Every whole line in order, and what follows the last one; both empty without a file.

    Raises:
        InputError: the file cannot be read, or a line does not follow from the one before it.
    """
    *whole, rest = read_log_bytes(path).split(b"\n")
    return _followed(path, whole), rest


def read_log_bytes(path: Path) -> bytes:
    """The content of a log, empty where there is none; anything but a regular file is refused."""
    _refuse_link(path)
    try:
        file = os.open(path, os.O_RDONLY | _PLAINLY)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise _unreadable(path, error) from None
    try:
        return _content(file, path)
    except OSError as error:
        raise _unreadable(path, error) from None
    finally:
        os.close(file)


def append_line(
    path: Path, content: Mapping[str, Any], *, unless: Callable[[bytes], bool] | None = None
) -> Line | None:
    """Add a line that names the last one; it has reached the disk when this returns.

    A torn last line is repaired first, and a warning says so. Where the log meets ``unless``,
    nothing is written and nothing returned; without ``unless`` a broken chain is refused.
    """
    with _locked(path) as file:
        before = _content(file, path)
        if unless is None:
            _followed(path, before.split(b"\n")[:-1])
        elif unless(before):
            return None
        lines = _repaired(file, path, before)
        line = {**content, "previous": _last_digest(lines)}
        encoded = encode_line(line)
        append_whole(file, encoded, at=len(lines))
        sync_folder(path.parent)
    return Line(line, digest_of(encoded[:-1]))


def digest_of(line: bytes) -> str:
    """SHA-256 of a line without its end."""
    return hashlib.sha256(line).hexdigest()


def broken(path: Path, number: int, fault: str = "does not") -> InputError:
    """The error about a log, which names the line at fault."""
    return InputError(
        "Expected a log in which every line follows from the one before it, but line "
        f"{number} of {path} {fault}: it was changed by hand; restore it from a copy.",
        code="damaged",
    )


def decoded(line: bytes) -> dict[str, Any] | None:
    """A line as a JSON object, if it is one."""
    try:
        content = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _followed(path: Path, lines: list[bytes]) -> tuple[Line, ...]:
    chain: list[Line] = []
    for number, line in enumerate(lines, start=1):
        content = decoded(line)
        if content is None:
            raise broken(path, number, "is not a JSON object in UTF-8")
        if content.get("previous") != (chain[-1].digest if chain else ""):
            raise broken(path, number)
        chain.append(Line(content, digest_of(line)))
    return tuple(chain)


def _last_digest(lines: bytes) -> str:
    return digest_of(lines[:-1].rpartition(b"\n")[2]) if lines else ""


def _repaired(file: int, path: Path, content: bytes) -> bytes:
    """The log in whole lines: a last line that lacks only its end gets it, part of a line goes."""
    whole, end, rest = content.rpartition(b"\n")
    if not rest:
        return content
    lines = whole + end
    number = lines.count(b"\n") + 1
    if (decoded(rest) or {}).get("previous") == _last_digest(lines):
        append_whole(file, b"\n", at=len(content))
        lines = content + b"\n"
        repair = "lacked only its end, which was added"
    else:
        os.ftruncate(file, len(lines))
        repair = "was removed"
    warnings.warn(
        f"line {number} of {path} was torn when a write was cut short, and {repair}.",
        CheckwiseWarning,
        stacklevel=2,
    )
    return lines


def _content(file: int, path: Path) -> bytes:
    state = os.fstat(file)
    if not stat.S_ISREG(state.st_mode) and not stat.S_ISDIR(state.st_mode):  # reading says so
        raise InputError(
            f"Expected a log in a plain file, but {path} is a device or a pipe: move it away.",
            code="unsupported",
        )
    if state.st_size > LARGEST:
        raise InputError(
            f"Expected a log of at most {LARGEST} bytes, but got {state.st_size} in {path}: it was "
            "changed by hand; restore it from a copy.",
            code="damaged",
        )
    parts = []
    at = 0
    while part := os.pread(file, 2**24, at):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """The open log, locked for one writer at a time."""
    _refuse_link(path)
    file = os.open(path, os.O_RDWR | os.O_CREAT | _PLAINLY, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)  # closing it lets go
        yield file
    finally:
        os.close(file)


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise InputError(
            f"Expected a log in a plain file, but {path} is a link: put the file itself there.",
            code="outside",
        )


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(
        f"Expected a log that can be read, but got: {error.strerror} in {path}: make it readable.",
        code="system",
    )
