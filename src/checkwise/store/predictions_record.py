"""``predictions.json``: which checkpoint each step of a predictions folder is, and who made it.

The outputs themselves say everything that is measured. The record adds where the checkpoints lie,
and what has to stay the same for the folder to be continued.
"""

from __future__ import annotations

import os
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from checkwise.errors import InputError
from checkwise.store import layout, safe_read, strict_json
from checkwise.store.atomic_write import write_text

RECORD: Final = "predictions.json"
_LARGEST: Final = 1 << 26  # bytes; a million checkpoints need as many


class FileState(NamedTuple):
    """What changes when a checkpoint is written again: its bytes, and when it was modified."""

    bytes: int
    modified_ns: int


@dataclass(frozen=True)
class RecordedCheckpoint:
    """A checkpoint by its path below the folder of checkpoints, as it was when it was evaluated."""

    name: str
    state: FileState


@dataclass(frozen=True)
class PredictionsRecord:
    """What ``checkwise predict`` was told and read.

    Args:
        function: ``file.py:function`` or ``module:function``, without the folder of the file.
        sha256: of the function's file.
        folder: the folder of checkpoints, absolute.
        from_here: the same, relative to the folder of the record.
        domains: every domain that was asked for.
        checkpoints: by step.
        versions: of the packages that wrote the last outputs.
    """

    function: str
    sha256: str
    folder: str
    from_here: str
    domains: tuple[str, ...]
    checkpoints: Mapping[int, RecordedCheckpoint]
    versions: Mapping[str, str]


class Located(NamedTuple):
    """Where checkpoints are by step, and what to say about those that are not as they were."""

    paths: dict[int, str]
    notes: tuple[str, ...]


def state_of(path: Path) -> FileState:
    """Of a file; of a folder, the sum of its files and the newest of their times."""
    if not path.is_dir():
        status = path.stat()
        return FileState(status.st_size, status.st_mtime_ns)
    files = [Path(place, name) for place, _, names in os.walk(path) for name in names]
    states = [file.stat() for file in files if file.exists()]  # without links that lead nowhere
    times = [state.st_mtime_ns for state in states]
    return FileState(sum(state.st_size for state in states), max(times, default=0))


def write_record(folder: Path, record: PredictionsRecord) -> None:
    """Put the record in its place, whole."""
    content = {
        "schema": layout.SCHEMA,
        "function": record.function,
        "sha256": record.sha256,
        "folder": record.folder,
        "from_here": record.from_here,
        "domains": list(record.domains),
        "checkpoints": [
            {"step": step, "name": checkpoint.name, **checkpoint.state._asdict()}
            for step, checkpoint in sorted(record.checkpoints.items())
        ],
        "versions": dict(record.versions),
    }
    write_text(folder / RECORD, layout.encode_json(content))


def read_record(folder: Path) -> PredictionsRecord | None:
    """The record of a predictions folder; None for outputs that something else saved.

    Raises:
        InputError: the record is damaged, or of another schema.
    """
    path = folder / RECORD
    try:
        with safe_read.open_file(folder, RECORD) as file:
            raw = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _damaged(path, error.strerror or str(error)) from None
    try:
        if len(raw) > _LARGEST:
            raise ValueError(f"more than {_LARGEST >> 20} MiB")
        content = strict_json.parse(raw)
        if not isinstance(content, dict):
            raise ValueError("no JSON object")
        layout.check_schema(content.get("schema"), path)
        return _record(content)
    except InputError:
        raise
    except ValueError as error:
        raise _damaged(path, str(error)) from None


def locate(folder: Path, record: PredictionsRecord, steps: Container[int]) -> Located:
    """Where the checkpoints of these steps are: as seen from the record, or else as at first.

    So the folder can be moved together with the checkpoints, or without them. Whoever wrote the
    record chose the paths: they are looked at, and neither opened nor searched.
    """
    roots = (os.path.normpath(folder / record.from_here), record.folder)
    paths: dict[int, str] = {}
    absent, changed = [], []
    for step, checkpoint in sorted(record.checkpoints.items()):
        if step not in steps:
            continue
        places = [Path(root, checkpoint.name) for root in roots]
        present = [place for place in places if os.path.exists(place)]
        same = [p for p in present if p.is_dir() or p.stat().st_size == checkpoint.state.bytes]
        paths[step] = str((same or present or places[-1:])[0])
        if not present:
            absent.append(paths[step])
        elif not same:
            changed.append(paths[step])
    return Located(
        paths,
        (
            *_note(absent, "is not there any more"),
            *_note(changed, "has changed since it was evaluated"),
        ),
    )


def _note(paths: list[str], what: str) -> tuple[str, ...]:
    if not paths:
        return ()
    others = f" (and so with {len(paths) - 1} more)" if len(paths) > 1 else ""
    return (f"the checkpoint {paths[0]} {what}{others}",)


def _record(content: Mapping[str, Any]) -> PredictionsRecord:
    entries = _of_kind(content, "checkpoints", list)
    checkpoints: dict[int, RecordedCheckpoint] = {}
    for entry in entries:
        if not isinstance(entry, dict):
            raise ValueError("a checkpoint that is no object")
        step, name = _whole(entry, "step"), _of_kind(entry, "name", str)
        if step in checkpoints:
            raise ValueError(f"step {step} twice")
        if not safe_read.is_plain_path(name):
            raise ValueError(f"{name!r:.80} as a checkpoint's name")
        state = FileState(_whole(entry, "bytes"), _whole(entry, "modified_ns"))
        checkpoints[step] = RecordedCheckpoint(name, state)
    domains, versions = _of_kind(content, "domains", list), _of_kind(content, "versions", dict)
    if not all(isinstance(name, str) for name in (*domains, *versions.values())):
        raise ValueError("a name or version that is no text")
    texts = {
        name: _of_kind(content, name, str) for name in ("function", "sha256", "folder", "from_here")
    }
    if any("\0" in text for text in texts.values()):
        raise ValueError("a null character")
    return PredictionsRecord(
        **texts, domains=tuple(domains), checkpoints=checkpoints, versions=versions
    )


def _of_kind(content: Mapping[str, Any], name: str, kind: type) -> Any:
    value = content.get(name)
    if not isinstance(value, kind):
        raise ValueError(f"{value!r:.40} as {name!r}")
    return value


def _whole(content: Mapping[str, Any], name: str) -> int:
    value = content.get(name)
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r:.40} as {name!r}")
    return value


def _damaged(path: Path, reason: str) -> InputError:
    return InputError(
        f"Expected the record of `checkwise predict`, but got: {reason} in {path}: restore the "
        "file, or remove it; without it the outputs are read, but no checkpoint's path is known.",
        code="damaged",
    )
