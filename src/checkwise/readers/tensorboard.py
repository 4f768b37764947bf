"""TensorBoard's event files: which belong to one run, and what their folders say about them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from checkwise.errors import InputError
from checkwise.readers.event_files import EventFile, is_event_file
from checkwise.readers.log import LIGHTNING, TENSORBOARD, Log, Points, each
from checkwise.readers.request import Request, names_in

NAME: Final = "events.out.tfevents"  # how writers begin the names of event files
ROLES: Final = ("train", "validation", "valid", "val", "eval", "test")
NEVER_CHOSEN_BY: Final = ("train", "test")
EPOCHS: Final = ("epoch", "train/epoch")  # Lightning's, and transformers'
# Keras writes this beside its validation scalars, and only there.
KERAS_VALIDATION: Final = re.compile(r"evaluation_.+_vs_iterations")
KERAS_BY_EPOCH: Final = "epoch_"

# The places of a column: an event file, and the tag in it.
Places = Sequence[tuple[EventFile, str]]


class EventFolder(NamedTuple):
    """Event files of one folder, and what their scalars are of: ``validation``, …; "" if unsaid."""

    role: str
    files: Sequence[Path]


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
    continues an earlier one or starts again. Beside others, folders of training and of test stay
    closed.
    """
    folders = event_folders(path) if path.is_dir() else [EventFolder(_role(path.parent), [path])]
    columns: dict[str, list[tuple[EventFile, str]]] = {}
    notes: list[str] = []
    has_record = False
    for role, paths in [f for f in folders if f.role not in NEVER_CHOSEN_BY] or folders:
        files = [EventFile(file).read() for file in paths]
        files.sort(key=lambda file: (np.nan_to_num(file.start or 0.0), file.path.name))
        for file in files:
            has_record |= file.start is not None
            if file.start is None:
                notes.append(f"{file.path.name} holds no whole record")
            elif file.torn is not None:
                notes.append(
                    f"{file.path.name} ends within a record (byte {file.torn}): its writer was "
                    "stopped or is still writing; that record is left out"
                )
            for tag in file.tags:
                columns.setdefault(_qualified(role, tag), []).append((file, tag))
        if len(files) > 1:
            notes.append(
                f"{len(files)} event files in {paths[0].parent} are read as one run, in the order "
                "of their start"
            )
    if not has_record:
        raise InputError(
            f"Expected TensorBoard events in {path}, but it holds no whole record: its writer was "
            "stopped before it wrote one; name another run.",
            code="empty",
        )
    epoch = next((name for name in EPOCHS if name in columns), None)
    by_keras = {file for at in columns.values() for file, t in at if KERAS_VALIDATION.fullmatch(t)}
    trainer = replace(
        TENSORBOARD,
        validation=tuple(
            name
            for name, places in columns.items()
            if name.startswith(KERAS_BY_EPOCH) and any(file in by_keras for file, _ in places)
        ),
        closing=LIGHTNING.closing if epoch == EPOCHS[0] else 0,
    )
    return [
        Log(
            path=path,
            trainer=trainer,
            header=tuple(name for name in columns if name != epoch),
            columns=each(lambda name: _points(name, columns, epoch, bool(by_keras))),
            axes={"step": "step"} | ({"epoch": epoch} if epoch else {}),
            notes=tuple(notes),
        )
    ]


def event_folders(path: Path) -> list[EventFolder]:
    """The event files directly in a folder, and those of its subfolders that belong to its run.

    Keras writes the folders ``train`` and ``validation``. torch's ``add_scalars`` writes a folder
    per curve, named after its tag and the curve: ``Loss_val`` for the tag ``Loss``.
    """
    own = _event_files(path)
    folders = [EventFolder(_role(path), own)] if own else []
    for subfolder in (place for name in names_in(path) if (place := path / name).is_dir()):
        role = _role(subfolder)
        files = _event_files(subfolder) if role or own else []
        role = role or _curve(subfolder.name, files)
        if files and role:
            folders.append(EventFolder(role, files))
    return folders


def _role(folder: Path) -> str:
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


def _event_files(folder: Path) -> list[Path]:
    paths = [folder / name for name in names_in(folder) if name.startswith(NAME)]
    return [path for path in paths if path.is_file()]


def _curve(folder: str, files: Sequence[Path]) -> str:
    """The curve of torch's ``add_scalars`` that a folder holds; "" if it holds another run."""
    try:
        events = (event for file in files[:1] for event in EventFile(file).events())
        tag = next((scalar.tag for event in events for scalar in event.scalars), None)
    except InputError:
        return ""
    start = "" if tag is None else tag.replace("/", "_") + "_"
    return folder.removeprefix(start) if start and folder.startswith(start) else ""


def _points(name: str, columns: Mapping[str, Places], epoch: str | None, is_keras: bool) -> Points:
    """The cells of a column; the epoch of each is the one logged last at its step, if any was."""
    own: dict[EventFile, dict[float, float]] = {}
    every: dict[float, float] = {}
    for file, tag in columns.get(epoch or "", ()):
        own[file] = dict(zip(*(part.tolist() for part in file.points(tag)), strict=True))
        every |= own[file]
    steps: list[float] = []
    epochs: list[float] = []
    cells: list[float] = []
    for file, tag in columns[name]:
        at, values = (part.tolist() for part in file.points(tag))
        clock = own.get(file, every)
        by_epoch = is_keras and tag.startswith(KERAS_BY_EPOCH)  # whose step is the epoch
        steps += at
        epochs += at if by_epoch else [clock.get(step, np.nan) for step in at]
        cells += values
    return Points(np.array(steps), np.array(epochs), cells)
