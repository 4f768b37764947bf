"""TensorBoard's event files: which belong to one run, and what their folders say about them."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from checkwise.errors import InputError
from checkwise.readers.event_files import (
    EventFile,
    Series,
    first_tag,
    is_event_file,
    read_event_file,
)
from checkwise.readers.log import LIGHTNING, TENSORBOARD, FloatArray, Log, Points, each
from checkwise.readers.request import Request, names_in

NAME = "events.out.tfevents"  # how writers begin the names of event files
ROLES = ("train", "validation", "valid", "val", "eval", "test")
NEVER_CHOSEN_BY = ("train", "test")
EPOCHS = ("epoch", "train/epoch")  # Lightning's, and transformers'
# Keras writes this beside its validation scalars, and only there.
KERAS_VALIDATION = re.compile(r"evaluation_.+_vs_iterations")
KERAS_BY_EPOCH = "epoch_"
CHUNK = 1 << 16


@dataclass(frozen=True)
class EventFolder:
    """Event files of one folder, and what their scalars are of: ``validation``, …; "" if unsaid."""

    role: str
    files: tuple[Path, ...]


@dataclass(frozen=True)
class _Column:
    """One tag of one event file, under the name that the log has for it."""

    name: str
    tag: str
    file: EventFile

    @property
    def series(self) -> Series:
        return self.file.series[self.tag]


def recognises(path: Path) -> bool:
    """Whether a file holds events, or a folder those of one run."""
    if path.is_dir():
        return bool(event_folders(path))
    return path.is_file() and (path.name.startswith(NAME) or is_event_file(path))


def own_folders(path: Path) -> set[str]:
    """The names of the folders in a run's folder that hold a part of its events."""
    return {folder.files[0].parent.name for folder in event_folders(path)}


def read(path: Path, request: Request) -> list[Log]:
    """The one log of an event file, or of a folder with those of one run.

    The files of a folder follow each other in the order of their start, so that a later one
    continues an earlier one or starts again.

    Raises:
        InputError: a file is damaged in the middle, or none has a whole record.
    """
    folders = event_folders(path) if path.is_dir() else [EventFolder(role_of(path.parent), (path,))]
    columns: list[_Column] = []
    notes: list[str] = []
    joined: list[str] = []
    damaged: list[str] = []
    has_record = False
    for folder in folders:
        try:
            files = [read_event_file(file) for file in folder.files]
        except InputError:
            if folder.role not in NEVER_CHOSEN_BY or len(folders) == 1:
                raise
            damaged.append(f"the events of {folder.role} are damaged and not read")
            continue
        files.sort(key=lambda file: (np.nan_to_num(file.start or 0.0), file.path.name))
        has_record |= any(file.start is not None for file in files)
        columns += [_Column(_qualified(folder.role, t), t, f) for f in files for t in f.series]
        notes += [note for file in files for note in file.notes]
        if len(files) > 1:
            joined.append(
                f"{len(files)} event files in {files[0].path.parent} are read as one run, in the "
                "order of their start"
            )
    if not has_record:
        raise InputError(
            f"Expected TensorBoard events in {path}, but it holds no whole record: its writer was "
            "stopped before it wrote one; name another run.",
            code="empty",
        )
    names = tuple(dict.fromkeys(column.name for column in columns))
    epoch = next((name for name in EPOCHS if name in names), None)
    trainer = replace(
        TENSORBOARD,
        validation=_keras_validation(columns),
        closing=LIGHTNING.closing if epoch == EPOCHS[0] else 0,
    )
    return [
        Log(
            path=path,
            trainer=trainer,
            header=tuple(name for name in names if name != epoch),
            columns=each(lambda name: _points(name, columns, epoch)),
            axes={"step": "step"} | ({"epoch": epoch} if epoch else {}),
            notes=(*notes, *joined, *damaged),
        )
    ]


def event_folders(path: Path) -> list[EventFolder]:
    """The event files directly in a folder, and those of its subfolders that belong to its run.

    Keras writes the folders ``train`` and ``validation``. torch's ``add_scalars`` writes a folder
    per curve, named after its tag and the curve: ``Loss_val`` for the tag ``Loss``.
    """
    own = _event_files(path)
    folders = [EventFolder(role_of(path), own)] if own else []
    for subfolder in (place for name in names_in(path) if (place := path / name).is_dir()):
        role = role_of(subfolder)
        files = _event_files(subfolder) if role or own else ()
        if files and not role:
            role = _curve(subfolder.name, files[0])
        if files and role:
            folders.append(EventFolder(role, files))
    return folders


def role_of(folder: Path) -> str:
    """What a folder's name says about the scalars in it."""
    name = folder.absolute().name.lower()
    return name if name in ROLES else ""


def _qualified(role: str, tag: str) -> str:
    """A tag under its folder's role.

    A run may itself be called ``train``: its tags that name another role keep their names.
    """
    if not role or (role == "train" and tag.split("/")[0].lower() in ROLES):
        return tag
    return f"{role}/{tag}"


def _event_files(folder: Path) -> tuple[Path, ...]:
    named = [folder / name for name in names_in(folder) if "tfevents" in name]
    return tuple(
        path
        for path in named
        if path.is_file() and (path.name.startswith(NAME) or is_event_file(path))
    )


def _curve(folder: str, file: Path) -> str:
    """The curve of torch's ``add_scalars`` that a folder holds; "" if it holds another run."""
    try:
        tag = first_tag(file)
    except InputError:
        return ""
    start = "" if tag is None else tag.replace("/", "_") + "_"
    return folder.removeprefix(start) if start and folder.startswith(start) else ""


def _keras_validation(columns: Sequence[_Column]) -> tuple[str, ...]:
    """The scalars by epoch that Keras wrote of its validation set, where no folder says so."""
    files = {id(column.file) for column in columns if KERAS_VALIDATION.fullmatch(column.tag)}
    return tuple(
        column.name
        for column in columns
        if id(column.file) in files
        and column.name == column.tag
        and column.tag.startswith(KERAS_BY_EPOCH)
    )


def _points(name: str, columns: Sequence[_Column], epoch: str | None) -> Points:
    clocks = [column for column in columns if column.name == epoch]
    of_keras = any(KERAS_VALIDATION.fullmatch(column.tag) for column in columns)
    steps, epochs, cells = [np.empty(0)], [np.empty(0)], array("d")
    for column in (column for column in columns if column.name == name):
        at = column.series.steps.astype(np.float64)
        steps.append(at)
        if of_keras and column.tag.startswith(KERAS_BY_EPOCH):
            epochs.append(at)  # Keras' step of these is the epoch
        else:
            own = [clock for clock in clocks if clock.file is column.file]
            epochs.append(_at_same_step(at, own or clocks))
        cells.frombytes(_decimals(column.series).tobytes())
    return Points(np.concatenate(steps), np.concatenate(epochs), cells)


def _at_same_step(steps: FloatArray, clocks: Sequence[_Column]) -> FloatArray:
    """The epoch that was logged last at each step; nan where none was."""
    logged: dict[float, float] = {}
    for clock in clocks:
        at = clock.series.steps.tolist()
        logged |= zip(at, _decimals(clock.series).tolist(), strict=True)
    if not logged:
        return np.full(len(steps), np.nan)
    return np.array([logged.get(step, np.nan) for step in steps.tolist()], np.float64)


def _decimals(series: Series) -> FloatArray:
    """The numbers that somebody logged, as far as their short form in the file tells."""
    values = series.values
    if series.bits == 64:
        return values
    stored = np.float16 if series.bits == 16 else np.float32
    for first in range(0, len(values), CHUNK):
        with np.errstate(invalid="ignore"):  # Python 3.14 keeps a signalling NaN as it is
            part = values[first : first + CHUNK].astype(stored)
        values[first : first + CHUNK] = part.astype("U").astype(np.float64)
    return values
