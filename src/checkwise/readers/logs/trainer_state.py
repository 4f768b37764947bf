"""The folder of a transformers run: ``trainer_state.json``, there or in ``checkpoint-<step>``."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from checkwise.readers.logs.json_log import HISTORY, open_document, whole_document
from checkwise.readers.logs.log import Log
from checkwise.readers.request import Request

STATE = "trainer_state.json"
CHECKPOINT = re.compile(r"checkpoint-([0-9]{1,15})")


def recognises(folder: Path) -> bool:
    """Whether a folder holds the state of a run, or checkpoints that do."""
    return folder.is_dir() and bool(_states(folder))


def open_logs(folder: Path) -> list[Log]:
    """The log of the newest state: every checkpoint repeats the log so far."""
    documents = [(path, whole_document(path)) for path in _states(folder)]
    path, document = max(documents, key=lambda one: _progress(one[1]))
    return [open_document(document, path, Request())]


def checkpoints(folder: Path) -> set[str]:
    """The names of the checkpoints in a run's folder, whose states are older than the run's."""
    return {name for name in os.listdir(folder) if CHECKPOINT.fullmatch(name)}


def _progress(document: Any) -> tuple[float, int]:
    if not isinstance(document, dict) or not isinstance(document.get(HISTORY), list):
        return (-1.0, 0)
    step = document.get("global_step")
    return (float(step) if isinstance(step, int | float) else -1.0, len(document[HISTORY]))


def _states(folder: Path) -> list[Path]:
    """The run's own state and that of its newest checkpoint."""
    steps = {
        int(match[1]): folder / name / STATE
        for name in os.listdir(folder)
        if (match := CHECKPOINT.fullmatch(name)) and (folder / name / STATE).is_file()
    }
    newest = [steps[max(steps)]] if steps else []
    own = folder / STATE
    return [*([own] if own.is_file() else []), *newest]
