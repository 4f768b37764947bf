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
from checkwise.store.whole_files import write_text

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


def mark_done(
    folder: Path, last_step: int, *, known: Mapping[str, Fingerprint] | None = None
) -> None:
    """Write the mark that a run is finished: the size and SHA-256 of every file that stays.

    Args:
        known: fingerprints taken when files were written; if one does not match, the run is not
            marked.
    """
    files = {name: fingerprint(folder, name) for name in kept_files(folder)}
    for name, written in (known or {}).items():
        if files.get(name) != written:
            raise damaged(folder / name, "changed" if name in files else "removed")
    content = {"schema": layout.LAYOUT_SCHEMA, "last_step": last_step, "files": files}
    write_text(folder / layout.DONE_FILE, layout.encode_json(content))


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


def check_start(path: Path, content: bytes, noted: Fingerprint) -> None:
    """Refuse the start of a journal that is not what a saved state was written beside."""
    if len(content) < noted["bytes"]:
        raise InputError(
            f"Expected at least {noted['bytes']} bytes, but got {len(content)} in {path}: the "
            "journal was shortened; remove the run's folder to train it again.",
            code="damaged",
        )
    if fingerprint_of(content) != noted:
        raise damaged(path, "changed")


def damaged(path: Path, how: str) -> InputError:
    """The error about a file of an unfinished run that is not as it was written."""
    return InputError(
        f"Expected {path} as the run wrote it, but it was {how} since: remove the run's folder and "
        "run the same command again, which trains it from its start.",
        code="damaged",
    )


def kept_files(folder: Path) -> list[str]:
    """Every file of a run that ``done`` lists, relative to its folder."""
    single = [name for name in (layout.RUN_FILE, layout.SOURCE_FILE) if (folder / name).is_file()]
    below = [
        path.relative_to(folder).as_posix()
        for place in (
            layout.HELDOUT_FOLDER,
            layout.CHECKPOINTS_FOLDER,
            layout.AVERAGES_FOLDER,
            layout.PREDICTIONS_FOLDER,
        )
        for path in sorted((folder / place).rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    ]
    return single + below


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
