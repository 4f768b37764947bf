"""The log of a cohort's registrations and of the first opening of its held-out results.

It lies beside ``cohort.json`` and only grows. A line is a registration (a rule, its parameters, the
tables that will be shown, the hashes of the source journals), a set of contrasts that was fixed
together, or the mark of the first opening. Each line names the digest of the one before it (see
:mod:`checkwise.store.hash_chain`).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from checkwise.errors import CheckwiseWarning, InputError
from checkwise.store import layout
from checkwise.store.atomic_write import StoreError, disk_remedy, writing
from checkwise.store.attempts import latest
from checkwise.store.cohort import is_cohort, open_cohort
from checkwise.store.done import fingerprint, finished
from checkwise.store.hash_chain import (
    Line,
    append_line,
    broken,
    decoded,
    read_chain,
    read_log_bytes,
)
from checkwise.store.safe_read import has_file

LOG: Final = layout.REGISTRATIONS
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
        run.name: str(fingerprint(folder, layout.SOURCE)["sha256"])
        for run in open_cohort(cohort).runs.values()
        if has_file(folder := latest(run), layout.SOURCE)
    }


def _checked(path: Path) -> tuple[tuple[Line, ...], str]:
    """The whole lines of a log, each checked, and a sentence about a torn end ("" without one)."""
    lines, rest = read_chain(path)
    for number, line in enumerate(lines, start=1):
        layout.check_schema(line.content.get("schema"), path)
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
    return {"schema": layout.SCHEMA, "at": at, "kind": kind, **content}


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
