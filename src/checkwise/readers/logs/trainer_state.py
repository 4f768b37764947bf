"""The folder of a transformers run: ``trainer_state.json``, there or in ``checkpoint-<step>``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.metrics.arrays import is_number
from checkwise.readers.logs.json_log import HISTORY, is_state, open_document, whole_document
from checkwise.readers.logs.log import Log
from checkwise.readers.request import Request

EVENTS = "runs"  # where transformers logs to TensorBoard
STATE = "trainer_state.json"
CHECKPOINT = re.compile(r"checkpoint-([0-9]{1,15})")


def recognises(folder: Path) -> bool:
    """Whether a folder holds the state of a run, or checkpoints that do."""
    return folder.is_dir() and bool(_states(folder))


def open_logs(folder: Path) -> list[Log]:
    """The log of the newest state that is whole: every checkpoint repeats the log so far."""
    documents, damaged = [], []
    for path in _states(folder):
        document = whole_document(path)
        if not is_state(document):
            damaged.append(path)
            continue
        documents.append((path, document))
        if path.parent != folder:
            break
    if not documents:
        raise InputError(
            f"Expected the state of a transformers run, but {damaged[0]} is no JSON with a list "
            f"{HISTORY!r}: name the folder of another run."
        )
    path, document = max(documents, key=lambda one: _progress(one[1]))
    log = open_document(document, path, Request())
    notes = [f"{path.relative_to(folder)} is damaged and not read" for path in damaged]
    if (folder / EVENTS).is_dir():
        notes.append(f"event files in {EVENTS}/ are not read; to choose by them, name that folder")
    return [replace(log, notes=(*log.notes, *notes))]


def checkpoints(folder: Path) -> set[str]:
    """The names of the checkpoints in a run's folder, whose states are older than the run's."""
    return {name for name in os.listdir(folder) if CHECKPOINT.fullmatch(name)}


def _progress(state: Mapping[str, Any]) -> tuple[float, int]:
    step: Any = state.get("global_step")
    return (float(step) if is_number(step) else -1.0, len(state[HISTORY]))


def _states(folder: Path) -> list[Path]:
    """The run's own state, then those of its checkpoints, the newest first."""
    steps = {
        int(match[1]): folder / name / STATE
        for name in os.listdir(folder)
        if (match := CHECKPOINT.fullmatch(name)) and (folder / name / STATE).is_file()
    }
    own = folder / STATE
    return [*([own] if own.is_file() else []), *(steps[step] for step in sorted(steps)[::-1])]
