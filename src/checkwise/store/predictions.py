"""Predictions on disk: what every validation example said at a checkpoint, a file for each set.

    predictions/
      predictions.json           what ``checkwise predict`` was told and read, if it wrote them
      step-000100/photo.npz      logits (or probs) [n, C], labels [n]; groups, correct, nll [n]

Of two classes, one column [n] or [n, 1] for class 1 is enough.
Correctness and NLL from full precision may stand beside logits in half precision.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.metrics import Outcomes, binary
from checkwise.store import layout, reading
from checkwise.store.npz import ArrayHeader, open_npz, write_npz
from checkwise.store.whole_files import write_text, write_with

OUTPUTS: Final = ("logits", "probs")
RECORD: Final = "predictions.json"
_LARGEST: Final = 1 << 26  # bytes of a record; a million checkpoints need as many
_STEP: Final = re.compile(r"step[-_]?([0-9]{1,15})")
_WEIGHTS: Final = (".safetensors", ".pt", ".pth", ".ckpt")
_SINGLE: Final = b"\x93NUMPY"  # how a file of one array begins
# Kinds of types and dimensions of each array, and how to say both of one that may be left out.
_ARRAYS: Final = {
    "logits": ("fiu", 2, ""),
    "probs": ("f", 2, ""),
    "labels": ("iufb", 1, ""),
    "groups": ("iuUSb", 1, "whole numbers or text [n], the unit of every example"),
    "correct": ("b", 1, "true or false [n], one per example"),
    "nll": ("f", 1, "decimal numbers [n], one per example"),
}


class Saved(NamedTuple):
    """What a file holds: groups and outcomes as far as they were saved."""

    kind: str
    outputs: Any
    labels: Any
    groups: Any | None = None
    outcomes: Outcomes | None = None


@dataclass(frozen=True)
class Predictions:
    """A folder of predictions, as it was when it was first asked."""

    folder: Path

    @cached_property
    def folders(self) -> dict[int, Path]:
        """Step → folder, in order of steps; two folders of one step are refused."""
        folders: dict[int, Path] = {}
        for name in sorted(os.listdir(self.folder)):
            match = _STEP.fullmatch(name)
            if match is None or not (self.folder / name).is_dir():
                continue
            step = int(match[1])
            if step in folders:
                raise InputError(
                    f"Expected one folder per step, but {self.folder} holds {folders[step].name} "
                    f"and {name}: remove one.",
                    code="ambiguous",
                )
            folders[step] = self.folder / name
        return dict(sorted(folders.items()))

    @cached_property
    def files(self) -> dict[int, dict[str, Path]]:
        """Step → set → file, without hidden files."""
        return {
            step: {
                file.stem: file
                for file in sorted(folder.glob("*.npz"))
                if not file.name.startswith(".") and file.is_file()
            }
            for step, folder in self.folders.items()
        }

    @property
    def sets(self) -> set[str]:
        """The names of all sets."""
        return {name for files in self.files.values() for name in files}

    @property
    def set_aside(self) -> set[str]:
        """Folders inside the folders of steps, and the files in them: by name, never opened."""
        inner = [entry for folder in self.folders.values() for entry in folder.iterdir()]
        folders = [entry for entry in inner if entry.is_dir()]
        files = {file.stem for folder in folders for file in folder.glob("*.npz")}
        return {folder.name for folder in folders} | files

    def place(self, step: int, name: str) -> Path:
        """Where outputs are written."""
        return self.folder / f"step-{step:06d}" / f"{name}.npz"

    def logits(self, step: int, names: Collection[str]) -> dict[str, tuple[Any, Any]]:
        """The logits and labels of one step on these sets; no other file is opened."""
        found: dict[str, tuple[Any, Any]] = {}
        for name in names:
            file = self.files[step][name]
            saved = read_outputs(file)
            if saved.kind != "logits":
                raise InputError(
                    f"Expected logits, but {file} holds {saved.kind}: a temperature needs logits; "
                    "save them as `logits`.",
                    code="missing",
                )
            found[name] = (saved.outputs, saved.labels)
        return found

    def outputs(self, names: Collection[str]) -> dict[int, Mapping[str, tuple[Any, ...]]]:
        """Step → set → outputs, labels, and groups and outcomes where they were saved.

        A file is read when it is asked for, and as the kind that the first of all files has.
        """
        kind = self.kind(names)
        return {
            step: _Outputs({name: file for name, file in files.items() if name in names}, kind)
            for step, files in self.files.items()
        }

    def kind(self, names: Collection[str]) -> str:
        """What the first file of these sets holds."""
        files = (files[name] for files in self.files.values() for name in files if name in names)
        return read_outputs(next(files), outputs=False).kind

    def weights(self) -> tuple[dict[int, str | None], tuple[str, ...]]:
        """The checkpoint of every step, by the record or beside the outputs; and notes on them."""
        record = PredictionsRecord.read(self.folder)
        if record is None:
            return {step: _weights(folder) for step, folder in self.folders.items()}, ()
        paths, notes = record.locate(self.folder, self.folders)
        return {step: paths.get(step) for step in self.folders}, notes


class _Outputs(Mapping[str, tuple[Any, ...]]):
    """The sets of one step; a file is opened when its set is asked for."""

    def __init__(self, files: Mapping[str, Path], kind: str) -> None:
        self._files = files
        self._kind = kind

    def __getitem__(self, name: str) -> tuple[Any, ...]:
        _, *said = read_outputs(self._files[name], self._kind)
        while said[-1] is None:
            said.pop()
        return tuple(said)

    def __contains__(self, name: object) -> bool:
        return name in self._files  # the inherited one would open the file

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def read_outputs(file: Path, kind: str | None = None, *, outputs: bool = True) -> Saved:
    """What one file holds; with ``outputs=False`` without the outputs, which are most of it."""
    with _opened(file) as saved:
        there = ", ".join(saved.files) or "(none)"
        kind = kind or next((kind for kind in OUTPUTS if kind in saved.files), None)
        if kind is None or kind not in saved.files:
            raise _unexpected(file, f"arrays {there}{f', no {kind}' if kind else ''}")
        if "labels" not in saved.files:
            raise _unexpected(file, f"arrays {there}, no labels")
        outcomes = None
        if {"correct", "nll"} <= {*saved.files}:
            outcomes = Outcomes(saved["correct"], np.asarray(saved["nll"], dtype=np.float64))
        groups = saved["groups"] if "groups" in saved.files else None
        if not outputs:
            return Saved(kind, None, saved["labels"], groups, outcomes)
        return Saved(kind, *binary(saved[kind], saved["labels"], kind), groups, outcomes)


def is_whole(file: Path) -> bool:
    """Whether a file of outputs is there and was not cut off; no value is read."""
    try:
        with file.open("rb") as opened, open_npz(opened) as (headers, _):
            return "labels" in headers and any(kind in headers for kind in OUTPUTS)
    except (OSError, ValueError):
        return False


def write_outputs(file: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write one file, whole; equal outputs give equal files."""

    def save(temporary: Path) -> None:
        with temporary.open("wb") as opened:
            write_npz(opened, arrays)

    write_with(file, save)


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    try:
        with reading.open_regular(file) as handle:
            if handle.read(6) == _SINGLE:
                raise _unexpected(file, "a single array")
            handle.seek(0)
            with open_npz(handle) as (headers, saved):
                _check(headers, file)
                yield saved
    except InputError:
        raise
    except Exception as error:
        # Damage surfaces as a dozen kinds of error; all mean the same to the caller.
        reason = str(error).partition("\n")[0][:80] or type(error).__name__
        raise InputError(
            f"Expected an .npz file of plain arrays, but {file} cannot be read ({reason}): "
            "save it again with np.savez.",
            code="format",
        ) from None


def _check(headers: Mapping[str, ArrayHeader], file: Path) -> None:
    """Refuse what cannot be outputs and their labels, by headers alone."""
    present = {name: headers[name] for name in _ARRAYS if name in headers}
    for name, (shape, dtype) in present.items():
        kinds, ndim, said = _ARRAYS[name]
        one = name in (*OUTPUTS, "labels") and (len(shape) == 1 or shape[1:] == (1,))
        if (len(shape) == ndim or one) and dtype.kind in kinds:
            continue
        came = f"{name} of shape {shape} and type {dtype}"
        if not said:
            raise _unexpected(file, came)
        raise InputError(
            f"Expected {name} as {said}, but {file} holds {came}: save it so, or leave it out.",
            code="format",
        )
    rows = {name: header.shape[0] for name, header in present.items()}
    for name, n in rows.items():
        if n != rows.get("labels", n):
            raise InputError(
                f"Expected as many labels as {name}, but {file} holds {rows['labels']} labels and "
                f"{n} {name}: save those of the same examples.",
                code="differs",
            )


def _unexpected(file: Path, came: str) -> InputError:
    return InputError(
        f"Expected numeric arrays logits (or probs) [n, C] and labels [n], but {file} holds "
        f"{came}: save them with np.savez(file, logits=…, labels=…).",
        code="format",
    )


def _weights(folder: Path) -> str | None:
    """The weights saved with a step, by name only: one file of the first suffix that occurs."""
    for place, pattern in ((folder, "*"), (folder.parent, f"{folder.name}.*")):
        for suffix in _WEIGHTS:
            files = sorted(f for f in place.glob(pattern) if f.suffix == suffix and f.is_file())
            named = [file for file in files if file.stem in ("weights", "model")]
            if len(files) == 1 or named:
                return str((named or files)[-1])
    return None


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

    def write(self, folder: Path) -> None:
        """Put the record in its place, whole."""
        checkpoints = [
            {"step": step, "name": checkpoint.name, **checkpoint.state._asdict()}
            for step, checkpoint in sorted(self.checkpoints.items())
        ]
        facts = {**vars(self), "domains": list(self.domains), "checkpoints": checkpoints}
        content = {"schema": layout.LAYOUT_SCHEMA, **facts}
        write_text(folder / RECORD, layout.encode_json(content))

    @classmethod
    def read(cls, folder: Path) -> PredictionsRecord | None:
        """The record of a predictions folder; None for outputs that something else saved.

        Raises:
            InputError: the record is damaged, or of another schema.
        """
        path = folder / RECORD
        try:
            with reading.open_file(folder, RECORD) as file:
                content = reading.parse(file.read(_LARGEST))
            layout.check_schema(content["schema"], path)
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
