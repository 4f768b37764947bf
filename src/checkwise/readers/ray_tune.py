"""Ray Tune's ``result.json``: a line of JSON for every report of a trial.

``progress.csv`` beside it is the same trial, without the columns that came up later.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from checkwise.readers import stores
from checkwise.readers.json_lines import Line, flattened, read_lines
from checkwise.readers.log import RAY, Log
from checkwise.readers.stores import Record
from checkwise.store import is_plain_name, open_regular

RESULT = "result.json"
ITERATION = "training_iteration"
EPOCH = "epoch"
CHECKPOINT = "checkpoint_dir_name"
# Beside the iteration, one of these is in every record of Ray's and in few of anybody else's.
OF_RAY = ("trial_id", "time_total_s", "iterations_since_restore")
NOT_METRICS = (
    ITERATION,
    EPOCH,
    "date",
    "done",
    "episodes_total",
    "experiment_id",
    "experiment_tag",
    "hostname",
    "iterations_since_restore",
    "node_ip",
    "pid",
    "time_since_restore",
    "time_this_iter_s",
    "time_total_s",
    "timestamp",
    "timesteps_since_restore",
    "timesteps_total",
    "trial_id",
    "warmup_time",
)
LONGEST_LINE = 1 << 24  # bytes of the first line; RLlib's can have some hundred thousand


def recognises(path: Path) -> bool:
    """Whether a file is a trial's ``result.json``, or a folder holds one."""
    file = _file(path)
    if not file.is_file():
        return False
    try:
        with open_regular(file) as lines:
            line = lines.readline(LONGEST_LINE)
        first = json.loads(line)
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(first, dict) and ITERATION in first and any(key in first for key in OF_RAY)


def open_logs(path: Path) -> list[Log]:
    """The log of one trial; what a restored trial appended stands behind the rest."""
    file = _file(path)
    lines, notes = read_lines(file)
    log = [_record(line) for line in lines]
    columns = stores.numeric(record.fields for record in log)
    axes = {"step": ITERATION} | ({"epoch": EPOCH} if EPOCH in columns else {})
    return [
        Log(
            path=file,
            trainer=RAY,
            header=tuple(name for name in columns if name not in NOT_METRICS),
            points=partial(stores.points, log),
            said=partial(stores.said, log),
            files=checkpoint_folders(file.parent, log),
            axes=axes,
            notes=notes,
        )
    ]


def checkpoint_folders(folder: Path, log: Sequence[Record]) -> dict[int, str]:
    """Checkpoints that are there, by iteration: Ray numbers them apart from the iterations."""
    files: dict[int, str] = {}
    for record in log:
        name = record.fields.get(CHECKPOINT)
        if not (isinstance(name, str) and is_plain_name(name) and record.step.is_integer()):
            continue
        if (folder / name).is_dir():
            files[int(record.step)] = str(folder / name)
    return files


def _file(path: Path) -> Path:
    return path / RESULT if path.is_dir() else path


def _record(line: Line) -> Record:
    fields: dict[str, Any] = {
        name: value for name, value in line.fields.items() if name != "config"
    }
    return Record(
        step=stores.axis(fields.get(ITERATION)),
        epoch=stores.axis(fields.get(EPOCH)),
        fields=flattened(fields),
    )
