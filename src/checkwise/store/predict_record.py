"""``predictions.json``: what ``checkwise predict`` was told and read."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from checkwise.errors import InputError
from checkwise.store import reading
from checkwise.store.layout import LAYOUT_SCHEMA, check_schema, encode_json
from checkwise.store.whole_files import write_text

RECORD: Final = "predictions.json"
_LARGEST: Final = 1 << 26  # bytes of a record; a million checkpoints need as many


class FileState(NamedTuple):
    """What changes when a checkpoint is written again: its bytes, and when it was modified."""

    bytes: int
    modified_ns: int

    @classmethod
    def of(cls, path: Path) -> FileState:
        """Of a file; of a folder, the sum of its files and the newest of their times."""
        if not path.is_dir():
            status = path.stat()
            return cls(status.st_size, status.st_mtime_ns)
        files = [Path(place, name) for place, _, names in os.walk(path) for name in names]
        states = [file.stat() for file in files if file.exists()]  # no links that lead nowhere
        times = [state.st_mtime_ns for state in states]
        return cls(sum(state.st_size for state in states), max(times, default=0))


class RecordedCheckpoint(NamedTuple):
    """A checkpoint by its path below the folder of checkpoints, as it was when it was evaluated."""

    name: str
    state: FileState


@dataclass(frozen=True)
class PredictionsRecord:
    """What ``checkwise predict`` was told and read."""

    function: str  # ``file.py:function`` or ``module:function``, without the folder of the file
    sha256: str  # of the function's file
    folder: str  # of the checkpoints, absolute
    from_here: str  # the same, from the folder of the record
    domains: tuple[str, ...]  # every one that was asked for
    checkpoints: Mapping[int, RecordedCheckpoint]
    versions: Mapping[str, str]  # of the packages that wrote the last outputs

    def write(self, folder: Path) -> None:
        """Put the record in its place, whole."""
        checkpoints = [
            {"step": step, "name": checkpoint.name, **checkpoint.state._asdict()}
            for step, checkpoint in sorted(self.checkpoints.items())
        ]
        facts = {**vars(self), "domains": list(self.domains), "checkpoints": checkpoints}
        content = {"schema": LAYOUT_SCHEMA, **facts}
        write_text(folder / RECORD, encode_json(content))

    @classmethod
    def read(cls, folder: Path) -> PredictionsRecord | None:
        """The record of a predictions folder; None for outputs that something else saved."""
        path = folder / RECORD
        try:
            with reading.open_file(folder, RECORD) as file:
                content = reading.parse(file.read(_LARGEST))
            check_schema(content["schema"], path)
            checkpoints: dict[int, RecordedCheckpoint] = {}
            for entry in content["checkpoints"]:
                step, name = entry["step"], entry["name"]
                state = FileState(entry["bytes"], entry["modified_ns"])
                whole = all(type(number) is int and number >= 0 for number in (step, *state))
                if not whole or step in checkpoints or not reading.is_plain_path(name):
                    raise ValueError(f"{entry!r:.80} as a checkpoint")
                checkpoints[step] = RecordedCheckpoint(name, state)
            texts = {name: content[name] for name in ("function", "sha256", "folder", "from_here")}
            domains, versions = tuple(content["domains"]), dict(content["versions"])
            for text in (*domains, *versions.values(), *texts.values()):
                if not isinstance(text, str) or "\0" in text:
                    raise ValueError(f"{text!r:.80} as a name or version")
            return cls(**texts, domains=domains, checkpoints=checkpoints, versions=versions)
        except FileNotFoundError:
            return None
        except InputError:
            raise
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise InputError(
                f"Expected the record of `checkwise predict`, but got: {error} in {path}: restore "
                "the file, or remove it; without it no checkpoint's path is known.",
                code="damaged",
            ) from None

    def locate(
        self, folder: Path, steps: Collection[int]
    ) -> tuple[dict[int, str], tuple[str, ...]]:
        """Where the checkpoints of these steps are, and notes on those that are not as they were.

        They are looked for as seen from the record, then as at first, so that the folder can be
        moved together with the checkpoints, or without them. Whoever wrote the record chose the
        paths: they are looked at, and neither opened nor searched.
        """
        roots = (os.path.normpath(folder / self.from_here), self.folder)
        paths: dict[int, str] = {}
        noted: dict[str, list[str]] = {"is not there any more": []}
        for step, (name, state) in sorted(self.checkpoints.items()):
            if step not in steps:
                continue
            places = [Path(root, name) for root in roots]
            present = [place for place in places if os.path.exists(place)]
            same = [p for p in present if p.is_dir() or p.stat().st_size == state.bytes]
            paths[step] = str((same or present or places[-1:])[0])
            if not same:
                what = "has changed since it was evaluated" if present else "is not there any more"
                noted.setdefault(what, []).append(paths[step])
        notes = [
            f"the checkpoint {found[0]} {what}"
            + (f" (and so with {len(found) - 1} more)" if len(found) > 1 else "")
            for what, found in noted.items()
            if found
        ]
        return paths, tuple(notes)
