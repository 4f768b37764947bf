"""Append-only files of one JSON object per line; a line that is there has reached the disk."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from checkwise.errors import InputError
from checkwise.store import strict_json
from checkwise.store.append import append_whole
from checkwise.store.atomic import sync_folder
from checkwise.store.inside import has_file, read_file
from checkwise.store.mark import Fingerprint


class Journal:
    """A journal opened for appending by its only writer.

    Args:
        path: the file; created if there is none.
        length: bytes to keep. What lies behind them was written after the state that names this
            length, and is written again.
    """

    def __init__(self, path: Path, *, length: int = 0) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        has_file(path.parent, path.name)  # refuses anything but a regular file
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o666)
        size = os.fstat(self._file).st_size
        if size < length:
            os.close(self._file)
            raise InputError(
                f"Expected at least {length} bytes, but got {size} in {path}: the journal was "
                "shortened; remove the run's folder to train it again."
            )
        os.ftruncate(self._file, length)
        os.fsync(self._file)
        sync_folder(path.parent)
        self._length = length
        self._digest = hashlib.sha256(os.pread(self._file, length, 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def length(self) -> int:
        """Bytes of whole, synced lines."""
        return self._length

    @property
    def fingerprint(self) -> Fingerprint:
        """Size and SHA-256 of what this process wrote or found in it."""
        return {"bytes": self._length, "sha256": self._digest.hexdigest()}

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one line; it has reached the disk when this returns."""
        line = encode_line(record)
        append_whole(self._file, line, at=self._length)
        self._length += len(line)
        self._digest.update(line)

    def close(self) -> None:
        """Let go of the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def encode_line(record: Mapping[str, Any]) -> bytes:
    """One compact line; floats keep every bit."""
    text = json.dumps(record, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.encode() + b"\n"


def read_journal(path: Path) -> list[dict[str, Any]]:
    """Every whole line of a journal (see ``parse_journal``)."""
    return parse_journal(read_file(path.parent, path.name), path)


def parse_journal(content: bytes, path: Path) -> list[dict[str, Any]]:
    """Every whole line of a journal's content; ``path`` is for messages.

    A last line without its end was being written when the process died and is passed over; a line
    that is broken in the middle of the file means damage, and is refused.
    """
    records = []
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            record = strict_json.parse(line)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise InputError(
                f"Expected a JSON object, but got {line[:40]!r} in line {number} of {path}: the "
                "file is damaged; restore it, or remove the run's folder to train it again."
            )
        records.append(record)
    return records
