"""``done``, the mark of a finished run: the size and SHA-256 of every file that it keeps.

Readers of a finished run accept a file only if it still matches the mark.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.store import layout, reading

RETRAIN = "remove the run's folder and run the same `checkwise study run` again to train it anew"

Fingerprint = dict[str, Any]


@dataclass(frozen=True)
class Mark:
    """The content of ``done``: the last step, and the size and SHA-256 of every file."""

    last_step: int
    files: Mapping[str, Fingerprint]


def finished(folder: Path) -> bool:
    """Whether a run has its mark."""
    return reading.has_file(Path(folder), layout.DONE_FILE)


def read_mark(folder: Path) -> Mark:
    """The mark of a finished run.

    Raises:
        InputError: it is damaged, or names files that are not the run's own.
    """
    return _mark(Path(folder), reading.identity(folder, layout.DONE_FILE))


@lru_cache(maxsize=1024)
def _mark(folder: Path, _: reading.Identity) -> Mark:
    path = folder / layout.DONE_FILE
    content = layout.read_json(path)
    last_step = layout.expect(content, "last_step", int, path)
    files = layout.expect(content, "files", dict, path)
    for name, recorded in files.items():
        if not reading.is_plain_path(name) or not is_fingerprint(recorded):
            raise InputError(
                f"Expected files of the run with their size and SHA-256, but got {name!r:.80} in "
                f"{path}: {RETRAIN}.",
                code="damaged",
            )
    return Mark(last_step, files)


def read_recorded(folder: Path, name: str) -> bytes:
    """The content of a run's file; of a finished run, only if it still matches the mark.

    Every reader of journals, predictions and weights comes through here.
    """
    content = reading.read_file(folder, name)
    check_recorded(folder, name, fingerprint_of(content))
    return content


def check_recorded(folder: Path, name: str, present: Fingerprint) -> None:
    """Refuse a file of a finished run that is not what the run finished with."""
    if not finished(folder):
        return
    recorded = read_mark(folder).files.get(name)
    if recorded is None:
        raise InputError(
            f"Expected what the run finished with, but {folder / name} was added since: move it "
            "out of the run's folder.",
            code="damaged",
        )
    if recorded != present:
        raise InputError(
            f"Expected what the run finished with, but the checksum differs in {folder / name}, "
            "which was changed since: `checkwise study status --verify` says what to do.",
            code="damaged",
        )


def fingerprint(folder: Path, name: str) -> Fingerprint:
    """Size and SHA-256 of a file."""
    with reading.open_file(folder, name) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"bytes": file.tell(), "sha256": digest}


def fingerprint_of(content: bytes) -> Fingerprint:
    """Size and SHA-256 of a file's content."""
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def is_fingerprint(recorded: object) -> bool:
    """Whether something is the size and SHA-256 of a file."""
    return (
        isinstance(recorded, dict)
        and type(recorded.get("bytes")) is int
        and isinstance(recorded.get("sha256"), str)
    )
