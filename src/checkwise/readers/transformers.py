"""Which transformers states are of one training: each repeats the records of those before it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.metrics import is_number
from checkwise.readers.json_log import HISTORY, is_state, open_document, whole_document
from checkwise.readers.log import Log
from checkwise.readers.request import Request, names_in

EVENTS = "runs"  # where transformers logs to TensorBoard
STATE = "trainer_state.json"
CHECKPOINT = re.compile(r"checkpoint-([0-9]{1,15})")
Records = frozenset[str]  # the records of a state's log; none where it is no state


def recognises(folder: Path) -> bool:
    """Whether a folder holds the state of a run, or checkpoints that do."""
    return folder.is_dir() and bool(_states(folder))


def read(folder: Path, request: Request) -> list[Log]:
    """The log of the newest state that is whole: every checkpoint repeats the log so far."""
    documents: list[tuple[Path, Mapping[str, Any]]] = []
    damaged: list[Path] = []
    for path in _states(folder):
        document = whole_document(path)
        if is_state(document):
            documents.append((path, document))
            if path.parent != folder:
                break
        else:
            damaged.append(path)
    if not documents:
        raise InputError(
            f"Expected the state of a transformers run, but {damaged[0]} is no JSON with a list "
            f"{HISTORY!r}: name the folder of another run.",
            code="format",
        )
    path, document = documents[0]
    notes = []
    if path.parent != folder:
        _check_one_training(folder, path, document)
    elif len(documents) > 1:
        newest, reached = documents[1]
        if not _of_one(_history(document), _history(reached)):
            other = newest.parent.name
            notes.append(f"{other} is of another training than {path.name}, not read")
        elif _progress(reached) > _progress(document):
            path, document = newest, reached
    log = open_document(document, path, request)
    notes += [f"{path.relative_to(folder)} is damaged and not read" for path in damaged]
    if (folder / EVENTS).is_dir():
        notes.append(f"event files in {EVENTS}/ are not read; to choose by them, name that folder")
    return [replace(log, notes=(*log.notes, *notes))]


def own_folders(folder: Path) -> set[str]:
    """The names of the checkpoints in a run's folder, whose states are older than the run's."""
    return {name for name in os.listdir(folder) if CHECKPOINT.fullmatch(name)}


def _check_one_training(folder: Path, newest: Path, state: Mapping[str, Any]) -> None:
    """Refuse checkpoints of several trainings where no state of the run says which one counts."""
    for path in _states(folder):
        if not _of_one(_history(whole_document(path)), _history(state)):
            raise InputError(
                f"Expected checkpoints of one training in {folder}, but by their {STATE} those in "
                f"{path.parent.name} and {newest.parent.name} are of two: move the checkpoints of "
                f"one training away, or name the state to read, such as {path}.",
                code="ambiguous",
            )


def _progress(state: Mapping[str, Any]) -> tuple[float, int]:
    step: Any = state.get("global_step")
    return (float(step) if is_number(step) else -1.0, len(state[HISTORY]))


def _states(folder: Path) -> list[Path]:
    """The run's own state, then those of its checkpoints, the newest first."""
    found = filter(None, map(CHECKPOINT.fullmatch, names_in(folder)))
    steps = {int(match[1]): match[0] for match in found}
    names = ["", *(steps[step] for step in sorted(steps)[::-1])]
    return [path for name in names if (path := folder / name / STATE).is_file()]


def of_another_training(folders: Sequence[Path], name: str, log_path: Path) -> list[Path]:
    """The checkpoints whose own state, in a file of this name, contradicts the log."""
    logged = _history_in(log_path)
    return [folder for folder in folders if not _of_one(_history_in(folder / name), logged)]


def _history_in(path: Path) -> Records:
    return _history(whole_document(path)) if path.is_file() else frozenset()


def _history(state: Any) -> Records:
    return frozenset(map(json.dumps, state[HISTORY])) if is_state(state) else frozenset()


def _of_one(first: Records, second: Records) -> bool:
    """Whether one log goes on where the other ends; so it is where one has no records."""
    return first <= second or second <= first
