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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

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
    latest,
    sync_folder,
    writing,
)
from checkwise.study.folder.cohort import is_cohort, open_cohort

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


LOG: Final = REGISTRATIONS_FILE
REGISTRATION: Final = "registration"
CONTRASTS: Final = "contrasts"
OPENED: Final = "opened"
_MARKED: dict[Path, tuple[int, ...]] = {}  # logs with the mark, as this process last saw them


def read_lines(cohort: Path) -> tuple[Line, ...]:
    """Every whole line with its digest; none where there is no log. A torn end gives a warning.

    Raises:
        InputError: the log cannot be read, or a line is not as this version writes it.
    """
    lines, torn = _checked(Path(cohort) / LOG)
    if torn:
        warnings.warn(f"{torn}.", CheckwiseWarning, stacklevel=2)
    return lines


def read_log(cohort: Path) -> list[dict[str, Any]]:
    """Every entry in order; none where there is no log.

    Raises:
        InputError: as in :func:`read_lines`, and also where the last line is torn.
    """
    lines, torn = _checked(Path(cohort) / LOG)
    if torn:
        raise InputError(f"Expected a log of whole lines, but {torn}.", code="damaged")
    return [dict(line.content) for line in lines]


def register(cohort: Path, choice: Mapping[str, Any]) -> Line:
    """Add a registration with the hashes of the source journals.

    The digest of the line covers the choice, the hashes and every line before it.
    """
    _checked(Path(cohort) / LOG)
    content = {"choice": dict(choice), "journals": source_hashes(cohort)}
    with writing(Path(cohort)):
        line = append_line(Path(cohort) / LOG, _entry(REGISTRATION, content))
    assert line is not None
    return line


def register_contrasts(
    cohort: Path, contrasts: Mapping[str, Any], facts: Mapping[str, Any]
) -> Line:
    """Add a registration of several contrasts at once, with ``facts`` that its digest covers too.

    The hashes are of the source journals of runs that are finished; others still grow.
    """
    _checked(Path(cohort) / LOG)
    record = open_cohort(cohort)
    done = {folder.name for folder in record.runs.values() if finished(folder)}
    journals = {run: digest for run, digest in source_hashes(cohort).items() if run in done}
    content = {"contrasts": dict(contrasts), **facts, "journals": journals}
    with writing(Path(cohort)):
        line = append_line(Path(cohort) / LOG, _entry(CONTRASTS, content))
    assert line is not None
    return line


def mark_opened(cohort: Path) -> None:
    """Record that held-out results have been opened, the first time only.

    Raises:
        StoreError: the mark cannot be written.
    """
    if not is_cohort(Path(cohort)):
        return
    path = (Path(cohort) / LOG).absolute()
    state = _state(path)
    if state is not None and _MARKED.get(path) == state:
        return
    if not _has_mark(read_log_bytes(path)):
        try:
            append_line(path, _entry(OPENED, {}), unless=_has_mark)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            otherwise = "make it writable, or copy the study to a folder that is"
            raise StoreError(
                f"Expected to mark in {path} that held-out results are opened, but got: {reason}; "
                f"{disk_remedy(error, otherwise)}, and run the same command again. Nothing is "
                "shown without the mark."
            ) from error
    state = _state(path)
    if state is not None:
        _MARKED[path] = state


def source_hashes(cohort: Path) -> dict[str, str]:
    """SHA-256 of the source journal of every run that has one, by the run's folder."""
    return {
        run.name: str(fingerprint(folder, SOURCE_FILE)["sha256"])
        for run in open_cohort(cohort).runs.values()
        if has_file(folder := latest(run), SOURCE_FILE)
    }


def _checked(path: Path) -> tuple[tuple[Line, ...], str]:
    """The whole lines of a log, each checked, and a sentence about a torn end ("" without one)."""
    lines, rest = read_chain(path)
    for number, line in enumerate(lines, start=1):
        check_schema(line.content.get("schema"), path)
        fault = _fault(line.content)
        if fault:
            raise broken(path, number, fault)
    torn = (
        f"line {len(lines) + 1} of {path} does not end, because a write was cut short: it does not "
        "count, and the next `checkwise study register` or opening repairs it"
    )
    return lines, torn if rest else ""


def _entry(kind: str, content: Mapping[str, Any]) -> dict[str, Any]:
    at = datetime.now(UTC).isoformat(timespec="seconds")
    return {"schema": LAYOUT_SCHEMA, "at": at, "kind": kind, **content}


def _has_mark(content: bytes) -> bool:
    """Whether a line of a log, whole or damaged, is the mark of an opening."""
    return any((decoded(line) or {}).get("kind") == OPENED for line in content.split(b"\n")[:-1])


def _state(path: Path) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _fault(entry: Mapping[str, Any]) -> str:
    """What is wrong with an entry that has its place in the chain; empty if nothing is."""
    if entry.get("kind") not in (REGISTRATION, CONTRASTS, OPENED):
        return f"is neither a {REGISTRATION} nor the mark of an opening"
    if not _is_date(entry.get("at")):
        return "has no date"
    if entry["kind"] == OPENED:
        return ""
    if entry["kind"] == CONTRASTS:
        return _contrasts_fault(entry)
    choice = entry.get("choice")
    if not isinstance(choice, dict) or not isinstance(choice.get("rule"), str):
        return "registers no choice"
    for name in ("metrics", "tables"):
        if not _texts(choice.get(name, [])):
            return f"has {name} that are not a list of names"
    return _journals_fault(entry)


def _contrasts_fault(entry: Mapping[str, Any]) -> str:
    contrasts = entry.get("contrasts")
    if not isinstance(contrasts, dict) or not isinstance(contrasts.get("contrast"), list):
        return "registers no contrasts"
    return _journals_fault(entry)


def _journals_fault(entry: Mapping[str, Any]) -> str:
    journals = entry.get("journals")
    if not isinstance(journals, dict) or not _texts(list(journals.values())):
        return "has no hashes of source journals"
    return ""


def _is_date(at: object) -> bool:
    try:
        return isinstance(at, str) and bool(datetime.fromisoformat(at))
    except ValueError:
        return False


def _texts(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)
