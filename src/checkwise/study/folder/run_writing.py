"""Writing a run's folder: ``run.json`` first, journals line by line, and ``done`` at the end."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, Self

from checkwise.errors import InputError
from checkwise.metrics import ARITHMETIC
from checkwise.records import RunKey
from checkwise.store import (
    AVERAGES_FOLDER,
    CHECKPOINTS_FOLDER,
    DONE_FILE,
    HELDOUT_FOLDER,
    LAYOUT_SCHEMA,
    PREDICTIONS_FOLDER,
    RUN_FILE,
    SOURCE_FILE,
    Fingerprint,
    append_whole,
    encode_json,
    encode_line,
    fingerprint,
    fingerprint_of,
    has_file,
    parse,
    sync_folder,
    write_text,
)


class Journal:
    """A journal opened for appending by its only writer, in a folder that must be there.

    The run continues from a state saved at ``length`` bytes: whatever follows is written again.
    """

    def __init__(self, path: Path, *, length: int = 0) -> None:
        self.path = path
        has_file(path.parent, path.name)  # refuses anything but a regular file
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o666)
        try:
            os.ftruncate(self._file, length)
            os.fsync(self._file)
            sync_folder(path.parent)
        except OSError:
            os.close(self._file)
            raise
        self._length = length
        self._digest = hashlib.sha256(os.pread(self._file, length, 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def length(self) -> int:
        return self._length

    @property
    def fingerprint(self) -> Fingerprint:
        return {"bytes": self._length, "sha256": self._digest.hexdigest()}

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one line; it has reached the disk when this returns."""
        line = encode_line(record)
        append_whole(self._file, line, at=self._length)
        self._length += len(line)
        self._digest.update(line)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def write_run(
    folder: Path,
    key: RunKey,
    config: Mapping[str, Any],
    *,
    machine: Mapping[str, str] | None = None,
    split: Mapping[str, Any] | None = None,
) -> str:
    """Write ``run.json`` at the start of a run; returns its text.

    ``machine`` names the processor, on which the last bits of the results depend. ``split`` says
    which groups are held out, where that is not told by the configuration alone.
    """
    content = {
        "schema": LAYOUT_SCHEMA,
        "key": key.as_dict(),
        "config": dict(config),
        "versions": versions(),
        "machine": dict(machine or {}),
        **({} if split is None else {"split": dict(split)}),
    }
    return _write(folder, content)


def write_continued_run(
    folder: Path, text: str, *, updates: int, machine: Mapping[str, str]
) -> str:
    """Write ``run.json`` as it was when a state was saved, after some updates of the run.

    It gets a note where versions or the processor differ.
    """
    content: dict[str, Any] = parse(text.encode())
    here = {"versions": versions(), "machine": dict(machine)}
    notes = content.get("continued", [])
    before = notes[-1] if notes else content
    if any(before.get(name) != facts for name, facts in here.items()):
        content["continued"] = [*notes, {"updates": updates, **here}]
    return _write(folder, content)


def _write(folder: Path, content: Mapping[str, Any]) -> str:
    text = encode_json(content)
    write_text(folder / RUN_FILE, text)
    return text


def versions() -> dict[str, str]:
    installed = {"python": platform.python_version(), "metrics": ARITHMETIC}
    for package in ("checkwise", "torch", "numpy"):
        with suppress(metadata.PackageNotFoundError):
            installed[package] = metadata.version(package)
    return installed


def mark_done(
    folder: Path, last_step: int, *, known: Mapping[str, Fingerprint] | None = None
) -> None:
    """Write the mark that a run is finished: the size and SHA-256 of every file that stays.

    Fingerprints that are ``known`` from when files were written have to match.
    """
    files = {name: fingerprint(folder, name) for name in kept_files(folder)}
    for name, written in (known or {}).items():
        if files.get(name) != written:
            raise damaged(folder / name, "changed" if name in files else "removed")
    content = {"schema": LAYOUT_SCHEMA, "last_step": last_step, "files": files}
    write_text(folder / DONE_FILE, encode_json(content))


def kept_files(folder: Path) -> list[str]:
    """Every file of a run that ``done`` lists, relative to its folder."""
    single = [name for name in (RUN_FILE, SOURCE_FILE) if (folder / name).is_file()]
    below = [
        path.relative_to(folder).as_posix()
        for place in (HELDOUT_FOLDER, CHECKPOINTS_FOLDER, AVERAGES_FOLDER, PREDICTIONS_FOLDER)
        for path in sorted((folder / place).rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    ]
    return single + below


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
