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
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

from checkwise.errors import CheckwiseWarning, InputError
from checkwise.store import (
    LAYOUT_SCHEMA,
    REGISTRATIONS_FILE,
    SOURCE_FILE,
    StoreError,
    append_whole,
    check_schema,
    disk_remedy,
    encode_line,
    fingerprint,
    finished,
    has_file,
    latest_attempt,
    open_file,
    sync_folder,
    writing,
)
from checkwise.study.folder.cohort import is_cohort, open_cohort

LARGEST: Final = 2**28  # bytes; ten thousand runs take about a megabyte a line
LOG: Final = REGISTRATIONS_FILE
REGISTRATION: Final = "registration"
CONTRASTS: Final = "contrasts"
OPENED: Final = "opened"
_MARKED: dict[Path, tuple[int, ...]] = {}  # logs with the mark, as this process last saw them


@dataclass(frozen=True)
class Line:
    """What one line says, and the SHA-256 of its bytes."""

    content: Mapping[str, Any]
    digest: str


def read_lines(cohort: Path) -> tuple[Line, ...]:
    """Every whole line with its digest; none where there is no log. A torn end gives a warning."""
    lines, torn = _checked(Path(cohort) / LOG)
    if torn:
        warnings.warn(f"{torn}.", CheckwiseWarning, stacklevel=2)
    return lines


def read_log(cohort: Path) -> list[dict[str, Any]]:
    """Every entry in order; none where there is no log."""
    lines, torn = _checked(Path(cohort) / LOG)
    if torn:
        raise InputError(f"Expected a log of whole lines, but {torn}.", code="damaged")
    return [dict(line.content) for line in lines]


def register(cohort: Path, choice: Mapping[str, Any]) -> Line:
    """Add a registration with the hashes of the source journals.

    The digest of the line covers the choice, the hashes and every line before it.
    """
    journals = source_hashes(cohort)
    return _register(cohort, REGISTRATION, {"choice": dict(choice), "journals": journals})


def register_contrasts(
    cohort: Path, contrasts: Mapping[str, Any], facts: Mapping[str, Any]
) -> Line:
    """Add a registration of several contrasts at once, with ``facts`` that its digest covers too.

    The hashes are of the source journals of runs that are finished; others still grow.
    """
    done = {folder.name for folder in open_cohort(cohort).runs.values() if finished(folder)}
    journals = {run: digest for run, digest in source_hashes(cohort).items() if run in done}
    content = {"contrasts": dict(contrasts), **facts, "journals": journals}
    return _register(cohort, CONTRASTS, content)


def _register(cohort: Path, kind: str, content: Mapping[str, Any]) -> Line:
    path = Path(cohort) / LOG
    _checked(path)
    with writing(path.parent), _locked(path) as file:
        lines = _whole_lines(file, path)
        _followed(path, lines.split(b"\n")[:-1])
        return _append(file, path, lines, kind, content)


def mark_opened(cohort: Path) -> None:
    """Record that held-out results have been opened, the first time only."""
    path = (Path(cohort) / LOG).absolute()
    if not is_cohort(Path(cohort)) or (_state(path) and _MARKED.get(path) == _state(path)):
        return
    if not _has_mark(_read(path)):
        try:
            with _locked(path) as file:
                if not _has_mark(_content(file, path)):
                    _append(file, path, _whole_lines(file, path), OPENED, {})
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            otherwise = "make it writable, or copy the study to a folder that is"
            raise StoreError(
                f"Expected to mark in {path} that held-out results are opened, but got: {reason}; "
                f"{disk_remedy(error, otherwise)}, and run the same command again. Nothing is "
                "shown without the mark."
            ) from error
    _MARKED[path] = _state(path)


def source_hashes(cohort: Path) -> dict[str, str]:
    return {
        run.name: str(fingerprint(folder, SOURCE_FILE)["sha256"])
        for run in open_cohort(cohort).runs.values()
        if has_file(folder := latest_attempt(run), SOURCE_FILE)
    }


def _state(path: Path) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _has_mark(content: bytes) -> bool:
    """Whether a line of a log, whole or damaged, is the mark of an opening."""
    return any((_decoded(line) or {}).get("kind") == OPENED for line in content.split(b"\n")[:-1])


def _read(path: Path) -> bytes:
    """The content of a log, empty where there is none; anything but a regular file is refused."""
    try:
        if not has_file(path.parent, path.name):
            return b""
        with open_file(path.parent, path.name) as file:
            return _content(file, path)
    except OSError as error:
        raise InputError(
            f"Expected a log that can be read, but got: {error.strerror} in {path}: make it "
            "readable.",
            code="system",
        ) from None


def _content(file: IO[bytes], path: Path) -> bytes:
    size = os.fstat(file.fileno()).st_size
    if size > LARGEST:
        raise InputError(
            f"Expected a log of at most {LARGEST} bytes, but got {size} in {path}: it was changed "
            "by hand; restore it from a copy.",
            code="damaged",
        )
    file.seek(0)
    return file.read()


@contextmanager
def _locked(path: Path) -> Iterator[IO[bytes]]:
    has_file(path.parent, path.name)  # refuses anything but a regular file
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o666), "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # closing it lets go
        yield file


def _append(
    file: IO[bytes], path: Path, lines: bytes, kind: str, content: Mapping[str, Any]
) -> Line:
    """Add a line that names the last one; it has reached the disk when this returns."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    entry = {"schema": LAYOUT_SCHEMA, "at": at, "kind": kind, **content}
    line = {**entry, "previous": _last_digest(lines)}
    encoded = encode_line(line)
    append_whole(file.fileno(), encoded, at=len(lines))
    sync_folder(path.parent)
    return Line(line, _digest(encoded[:-1]))


def _whole_lines(file: IO[bytes], path: Path) -> bytes:
    """The log in whole lines: a last line that lacks only its end gets it, part of a line goes."""
    content = _content(file, path)
    whole, end, rest = content.rpartition(b"\n")
    if not rest:
        return content
    lines = whole + end
    number = lines.count(b"\n") + 1
    if (_decoded(rest) or {}).get("previous") == _last_digest(lines):
        append_whole(file.fileno(), b"\n", at=len(content))
        lines = content + b"\n"
        repair = "lacked only its end, which was added"
    else:
        os.ftruncate(file.fileno(), len(lines))
        repair = "was removed"
    warnings.warn(
        f"line {number} of {path} was torn when a write was cut short, and {repair}.",
        CheckwiseWarning,
        stacklevel=2,
    )
    return lines


def _checked(path: Path) -> tuple[tuple[Line, ...], str]:
    """The whole lines of a log, each checked, and a sentence about a torn end ("" without one)."""
    *whole, rest = _read(path).split(b"\n")
    lines = _followed(path, whole)
    for number, line in enumerate(lines, start=1):
        check_schema(line.content.get("schema"), path)
        fault = _fault(line.content)
        if fault:
            raise _broken(path, number, fault)
    torn = (
        f"line {len(lines) + 1} of {path} does not end, because a write was cut short: it does not "
        "count, and the next `checkwise study register` or opening repairs it"
    )
    return lines, torn if rest else ""


def _followed(path: Path, lines: list[bytes]) -> tuple[Line, ...]:
    chain: list[Line] = []
    for number, line in enumerate(lines, start=1):
        content = _decoded(line)
        if content is None:
            raise _broken(path, number, "is not a JSON object in UTF-8")
        if content.get("previous") != (chain[-1].digest if chain else ""):
            raise _broken(path, number, "does not")
        chain.append(Line(content, _digest(line)))
    return tuple(chain)


def _broken(path: Path, number: int, fault: str) -> InputError:
    return InputError(
        "Expected a log in which every line follows from the one before it, but line "
        f"{number} of {path} {fault}: it was changed by hand; restore it from a copy.",
        code="damaged",
    )


def _fault(entry: Mapping[str, Any]) -> str:
    """What is wrong with an entry that has its place in the chain; empty if nothing is."""
    kind, choice = entry.get("kind"), entry.get("choice")
    try:
        datetime.fromisoformat(entry["at"])
    except (KeyError, TypeError, ValueError):
        return "has no date"
    if kind == OPENED:
        return ""
    if kind == REGISTRATION:
        if not isinstance(choice, dict) or not isinstance(choice.get("rule"), str):
            return "registers no choice"
        if not all(_texts(choice.get(name, [])) for name in ("metrics", "tables")):
            return "has metrics or tables that are not a list of names"
    elif kind == CONTRASTS:
        contrasts = entry.get("contrasts")
        if not isinstance(contrasts, dict) or not isinstance(contrasts.get("contrast"), list):
            return "registers no contrasts"
    else:
        return f"is neither a {REGISTRATION} nor the mark of an opening"
    journals = entry.get("journals")
    hashed = isinstance(journals, dict) and _texts([*journals.values()])
    return "" if hashed else "has no hashes of source journals"


def _texts(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def _last_digest(lines: bytes) -> str:
    return _digest(lines[:-1].rpartition(b"\n")[2]) if lines else ""


def _decoded(line: bytes) -> dict[str, Any] | None:
    try:
        content = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None
