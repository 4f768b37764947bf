"""Files of a derived result: read only as they were recorded when the result was made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from checkwise.errors import InputError
from checkwise.store import layout, strict_json
from checkwise.store.done import Fingerprint, fingerprint_of, is_fingerprint
from checkwise.store.safe_read import is_plain_path, read_file

RECORD: Final = "record.json"
AGAIN: Final = "remove the folder of this result and run the same `checkwise study derive` again"


def recorded_files(folder: Path) -> Mapping[str, Fingerprint]:
    """Size and SHA-256 of every file of a result; none if an earlier version wrote it."""
    path = folder / RECORD
    files: dict[str, Fingerprint] = layout.read_json(path).get("files", {})
    plain = isinstance(files, dict) and all(
        is_plain_path(name) and is_fingerprint(one) for name, one in files.items()
    )
    if not plain:
        raise InputError(
            f"Expected files with their size and SHA-256, but got {files!r:.80} in {path}: "
            f"{AGAIN}.",
            code="damaged",
        )
    return files


def read_derived(folder: Path, name: str, recorded: Fingerprint | None) -> bytes:
    """The content of a file of a result, which has to match what was recorded of it."""
    try:
        content = read_file(folder, name)
    except OSError as error:
        raise InputError(
            f"Expected {folder / name}, but it cannot be read ({error.strerror}): {AGAIN}.",
            code="system",
        ) from None
    if fingerprint_of(content) != recorded:
        raise InputError(
            f"Expected what `checkwise study derive` wrote, but {folder / name} was changed since: "
            f"{AGAIN}.",
            code="damaged",
        )
    return content


def derived_entry(folder: Path, name: str, recorded: Fingerprint | None) -> dict[str, Any]:
    """The JSON object in a file of a result."""
    content = read_derived(folder, name, recorded)
    try:
        entry = strict_json.parse(content)
    except ValueError as error:
        entry = error
    if not isinstance(entry, dict):
        raise InputError(
            f"Expected a JSON object, but got {entry} in {folder / name}: {AGAIN}.", code="damaged"
        )
    return entry
