"""TensorBoard's event files: of one run, whatever wrote them (torch, Keras, Lightning, …)."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from checkwise.errors import InputError
from checkwise.readers.logs.events.files import (
    NAME,
    EventFolder,
    event_folders,
    is_event_file,
    qualified,
    role_of,
)
from checkwise.readers.logs.events.scalars import EventFile, Series, read_event_file
from checkwise.readers.logs.log import FloatArray, Log, Points
from checkwise.readers.logs.trainers import LIGHTNING, TENSORBOARD

_LIGHTNINGS_EPOCH = "epoch"
_EPOCHS = (_LIGHTNINGS_EPOCH, "train/epoch")
# Keras writes this beside its validation scalars, and only there.
_KERAS_VALIDATION = re.compile(r"evaluation_.+_vs_iterations")
_KERAS_BY_EPOCH = "epoch_"
_CHUNK = 1 << 16
NEVER_CHOSEN_BY = ("train", "test")


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


def open_logs(path: Path) -> list[Log]:
    """The one log of an event file, or of a folder with those of one run.

    The files of a folder follow each other in the order of their start, so that a later one
    continues an earlier one or starts again.

    Raises:
        InputError: a file is damaged in the middle, or none has a whole record.
    """
    folders = event_folders(path) if path.is_dir() else [EventFolder(role_of(path.parent), (path,))]
    read, damage = _read_folders(folders)
    files = [file for _, part in read for file in part]
    if all(file.start is None for file in files):
        raise InputError(
            f"Expected TensorBoard events in {path}, but it holds no whole record: its writer was "
            "stopped before it wrote one; name another run.",
            code="empty",
        )
    columns = [
        _Column(qualified(role, tag), tag, file)
        for role, part in read
        for file in part
        for tag in file.series
    ]
    names = tuple(dict.fromkeys(column.name for column in columns))
    epoch = next((name for name in _EPOCHS if name in names), None)
    log = Log(
        path=path,
        trainer=replace(
            TENSORBOARD,
            validation=_keras_validation(columns),
            closing=LIGHTNING.closing if epoch == _LIGHTNINGS_EPOCH else 0,
        ),
        header=tuple(name for name in names if name != epoch),
        points=lambda name: _points(name, columns, epoch),
        axes={"step": "step"} | ({"epoch": epoch} if epoch else {}),
        notes=(*_notes(read), *damage),
    )
    return [log]


def _read_folders(
    folders: Sequence[EventFolder],
) -> tuple[list[tuple[str, list[EventFile]]], list[str]]:
    """The files of every folder; damage to what is never chosen by is only said."""
    read: list[tuple[str, list[EventFile]]] = []
    damage: list[str] = []
    for folder in folders:
        try:
            read.append((folder.role, _in_order(folder.files)))
        except InputError:
            if folder.role not in NEVER_CHOSEN_BY or len(folders) == 1:
                raise
            damage.append(f"the events of {folder.role} are damaged and not read")
    return read, damage


def _in_order(paths: Sequence[Path]) -> list[EventFile]:
    files = [read_event_file(path) for path in paths]
    return sorted(files, key=lambda file: (np.nan_to_num(file.start or 0.0), file.path.name))


def _notes(read: list[tuple[str, list[EventFile]]]) -> tuple[str, ...]:
    notes = [note for _, part in read for file in part for note in file.notes]
    for _, part in read:
        if len(part) > 1:
            folder = part[0].path.parent
            notes.append(
                f"{len(part)} event files in {folder} are read as one run, in the order of their "
                "start"
            )
    return tuple(notes)


def _of_keras(columns: Sequence[_Column]) -> bool:
    return any(_KERAS_VALIDATION.fullmatch(column.tag) for column in columns)


def _keras_validation(columns: list[_Column]) -> tuple[str, ...]:
    """The scalars by epoch that Keras wrote of its validation set, where no folder says so."""
    files = {id(column.file) for column in columns if _KERAS_VALIDATION.fullmatch(column.tag)}
    return tuple(
        column.name
        for column in columns
        if id(column.file) in files
        and column.name == column.tag
        and column.tag.startswith(_KERAS_BY_EPOCH)
    )


def _points(name: str, columns: list[_Column], epoch: str | None) -> Points:
    parts = [column for column in columns if column.name == name]
    clocks = [column for column in columns if column.name == epoch]
    keras = _of_keras(columns)
    steps, epochs, cells = [np.empty(0)], [np.empty(0)], array("d")
    for column in parts:
        at = np.array(column.series.steps, np.float64)
        steps.append(at)
        if keras and column.tag.startswith(_KERAS_BY_EPOCH):
            epochs.append(at)  # Keras' step of these is the epoch
        else:
            own = [clock for clock in clocks if clock.file is column.file]
            epochs.append(_at_same_step(at, own or clocks))
        cells.frombytes(_decimals(column.series).tobytes())
    return Points(np.concatenate(steps), np.concatenate(epochs), cells)


def _at_same_step(steps: FloatArray, clocks: list[_Column]) -> FloatArray:
    """The epoch that was logged last at each step; nan where none was."""
    epochs = np.full(len(steps), np.nan)
    if clocks and len(steps):
        logged = np.concatenate([np.array(clock.series.steps, np.float64) for clock in clocks])
        values = np.concatenate([_decimals(clock.series) for clock in clocks])
        order = np.argsort(logged, kind="stable")
        place = np.searchsorted(logged[order], steps, side="right") - 1
        same = (place >= 0) & (logged[order][place] == steps)
        epochs[same] = values[order][place[same]]
    return epochs


def _decimals(series: Series) -> FloatArray:
    """The numbers that somebody logged, as far as their short form in the file tells."""
    values = np.array(series.values, np.float64)
    if series.bits == 64:
        return values
    stored = np.float16 if series.bits == 16 else np.float32
    for first in range(0, len(values), _CHUNK):
        with np.errstate(invalid="ignore"):  # Python 3.14 keeps a signalling NaN as it is
            part = values[first : first + _CHUNK].astype(stored)
        values[first : first + _CHUNK] = part.astype("U").astype(np.float64)
    return values
