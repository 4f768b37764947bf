"""Where the event files of one run lie, and what their folders say about them."""

from __future__ import annotations

import re
import struct
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from checkwise.errors import InputError
from checkwise.readers.event_fields import MalformedError, read_event
from checkwise.readers.event_records import masked
from checkwise.readers.event_scalars import (
    EventFile,
    Series,
    first_tag,
    is_first_event,
    read_event_file,
)
from checkwise.readers.log import LIGHTNING, TENSORBOARD, FloatArray, Log, Points
from checkwise.store import open_regular

NAME = "events.out.tfevents"  # how writers begin the names of event files
ROLES = ("train", "validation", "valid", "val", "eval", "test")

_MARK = "tfevents"
_LONGEST_FIRST = 1 << 20  # bytes of a first record; a version has about twenty


@dataclass(frozen=True)
class EventFolder:
    """Event files of one folder, and what their scalars are of: ``validation``, …; "" if unsaid."""

    role: str
    files: tuple[Path, ...]


def event_folders(path: Path) -> list[EventFolder]:
    """The event files directly in a folder, and those of its subfolders that belong to its run.

    Keras writes the folders ``train`` and ``validation``. torch's ``add_scalars`` writes a folder
    per curve, named after its tag and the curve: ``Loss_val`` for the tag ``Loss``.
    """
    own = _event_files(path)
    folders = [EventFolder(role_of(path), own)] if own else []
    for subfolder in _entries(path):
        if not subfolder.is_dir():
            continue
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


def qualified(role: str, tag: str) -> str:
    """A tag under its folder's role.

    A run may itself be called ``train``: its tags that name another role keep their names.
    """
    if not role or (role == "train" and tag.split("/")[0].lower() in ROLES):
        return tag
    return f"{role}/{tag}"


def is_event_file(path: Path) -> bool:
    """Whether the first record of a file is an event, with the right checksums."""
    try:
        with open_regular(path) as file:
            header = file.read(12)
            if len(header) < 12:
                return False
            length, check = struct.unpack("<QI", header)
            if length > _LONGEST_FIRST or check != masked(header[:8]):
                return False
            record = file.read(length + 4)
    except OSError:
        return False
    data = record[:length]
    if len(record) < length + 4 or struct.pack("<I", masked(data)) != record[length:]:
        return False
    try:
        return is_first_event(read_event(data, 0, length))
    except MalformedError:
        return False


def _event_files(folder: Path) -> tuple[Path, ...]:
    return tuple(
        path
        for path in _entries(folder)
        if _MARK in path.name
        and path.is_file()
        and (path.name.startswith(NAME) or is_event_file(path))
    )


def _curve(folder: str, file: Path) -> str:
    """The curve of torch's ``add_scalars`` that a folder holds; "" if it holds another run."""
    try:
        tag = first_tag(file)
    except InputError:
        return ""
    start = "" if tag is None else tag.replace("/", "_") + "_"
    return folder.removeprefix(start) if start and folder.startswith(start) else ""


def _entries(folder: Path) -> Iterable[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise InputError(
            f"Expected a readable folder, but {folder} cannot be read ({error.strerror}): check "
            "its permissions.",
            code="system",
        ) from None


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
