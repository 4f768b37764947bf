"""What was decided before held-out results were opened: an append-only log beside ``cohort.json``.

Every line names the SHA-256 of the line before it, so that no line but the last can be changed,
removed or put in later without the log saying so. A line is a registration (a rule, its parameters,
the tables that will be shown, the hashes of the source journals) or the mark of the first opening.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from checkwise.errors import InputError
from checkwise.store import layout
from checkwise.store.cohort import is_cohort, open_cohort
from checkwise.store.faults import writing
from checkwise.store.journal import encode_line
from checkwise.store.run import fingerprint

LOG: Final = layout.REGISTRATIONS
REGISTRATION: Final = "registration"
OPENED: Final = "opened"
_OPENED_TEXT = f'"kind":"{OPENED}"'.encode()


def read_log(cohort: Path) -> list[dict[str, Any]]:
    """Every entry in order; none where there is no log.

    Raises:
        InputError: the log cannot be read, or a line does not follow from the one before it.
    """
    path = Path(cohort) / LOG
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(
            f"Expected a log that can be read, but got: {error.strerror} in {path}: make it "
            "readable."
        ) from None
    if lines.pop() != b"":
        raise _broken(path, len(lines) + 1)
    entries = []
    previous = ""
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
            follows = entry["previous"] == previous
        except (ValueError, KeyError, TypeError):
            follows = False
        if not follows:
            raise _broken(path, number)
        layout.check_schema(entry.get("schema"), path)
        entries.append(entry)
        previous = _digest(line)
    return entries


def register(cohort: Path, choice: Mapping[str, Any]) -> dict[str, Any]:
    """Add a registration with the hashes of the source journals; returns the entry."""
    with writing(Path(cohort)):
        return _append(
            Path(cohort),
            {"kind": REGISTRATION, "choice": dict(choice), "journals": source_hashes(cohort)},
        )


def mark_opened(cohort: Path) -> None:
    """Note that held-out results have been opened, the first time only.

    A cohort that cannot be written to stays as it is: it can be evaluated, but not marked.
    """
    if not is_cohort(Path(cohort)):
        return
    with suppress(OSError, InputError):
        if (Path(cohort) / LOG).is_file() and _OPENED_TEXT in (Path(cohort) / LOG).read_bytes():
            return
        _append(Path(cohort), {"kind": OPENED})


def source_hashes(cohort: Path) -> dict[str, str]:
    """SHA-256 of the source journal of every run that has one, by the run's folder."""
    found = {}
    for folder in open_cohort(cohort).runs.values():
        path = folder / layout.SOURCE
        if path.is_file():
            found[folder.name] = str(fingerprint(path)["sha256"])
    return found


def _append(cohort: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    file = os.open(cohort / LOG, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)  # two processes may open a cohort at once
        entries = read_log(cohort)
        if content["kind"] == OPENED and any(entry["kind"] == OPENED for entry in entries):
            return entries[-1]
        lines = (cohort / LOG).read_bytes().split(b"\n")
        entry = {
            "schema": layout.SCHEMA,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            **content,
            "previous": _digest(lines[-2]) if entries else "",
        }
        os.write(file, encode_line(entry))
        os.fsync(file)
        return entry
    finally:
        os.close(file)


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def _broken(path: Path, number: int) -> InputError:
    return InputError(
        f"Expected a log in which every line follows from the one before it, but line {number} of "
        f"{path} does not: it was changed by hand; restore it from a copy."
    )
