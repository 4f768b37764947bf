"""Ray's logs: Ray Tune's ``result.json`` and Ray Train's ``checkpoint_manager_snapshot.json``.

``progress.csv`` beside a ``result.json`` is the same trial, without the columns that came up later.
Version 2 of Ray Train writes no ``result.json``, and keeps no report without a checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.readers.json_lines import NoRecordsError, flattened, parsed_or_none, read_lines
from checkwise.readers.log import RAY, Log, Record, log_of_records, place
from checkwise.readers.request import first_bytes, opened, read_bytes
from checkwise.store import is_plain_name
from checkwise.words import shown

RESULT = "result.json"
ITERATION = "training_iteration"
EPOCH = "epoch"
CHECKPOINT = "checkpoint_dir_name"
# Beside the iteration, one of these is in every record of Ray's and in few of anybody else's.
OF_RAY = ("trial_id", "time_total_s", "iterations_since_restore")
NOT_METRICS = (
    ITERATION, EPOCH, "date", "done", "episodes_total", "experiment_id", "experiment_tag",
    "hostname", "iterations_since_restore", "node_ip", "pid", "time_since_restore",
    "time_this_iter_s", "time_total_s", "timestamp", "timesteps_since_restore", "timesteps_total",
    "trial_id", "warmup_time",
)  # fmt: skip
LONGEST_LINE = 1 << 24  # bytes of the first line; RLlib's can have some hundred thousand

SNAPSHOT = "checkpoint_manager_snapshot.json"
RESULTS = "checkpoint_results"
REPORTS = "checkpoint_report_indices"
STEP = "checkwise/step"  # of the callbacks of checkwise
START = 4096  # bytes in which a snapshot names its first results


def recognises(path: Path) -> bool:
    """Whether a file is of a trial or a training, or a folder holds one."""
    if path.is_dir():
        return _is_trial(path / RESULT) or _is_snapshot(path / SNAPSHOT)
    return _is_trial(path) or _is_snapshot(path)


def open_logs(path: Path) -> list[Log]:
    """The log of one trial or training; what a restored trial appended stands behind the rest."""
    file = path
    if path.is_dir():
        file = path / RESULT if _is_trial(path / RESULT) else path / SNAPSHOT
    return [_of_trial(file) if _is_trial(file) else _of_training(file)]


def _is_trial(file: Path) -> bool:
    if not file.is_file():
        return False
    try:
        with opened(file) as lines:
            first = json.loads(lines.readline(LONGEST_LINE))
    except (InputError, ValueError, RecursionError):
        return False
    return isinstance(first, dict) and ITERATION in first and any(key in first for key in OF_RAY)


def _of_trial(file: Path) -> Log:
    lines, notes = read_lines(file)
    own = [{name: cell for name, cell in line.fields.items() if name != "config"} for line in lines]
    log = [
        Record(place(fields.get(ITERATION)), place(fields.get(EPOCH)), flattened(fields))
        for fields in own
    ]
    return _log(file, log, ITERATION, NOT_METRICS, notes)


def _log(
    file: Path, log: Sequence[Record], step: str, beside: Sequence[str], notes: Sequence[str]
) -> Log:
    has_epochs = any(record.epoch == record.epoch for record in log)  # nan is none
    return log_of_records(
        file,
        RAY,
        log,
        axes={"step": step} | ({"epoch": EPOCH} if has_epochs else {}),
        beside=beside,
        files=_checkpoints(file.parent, log),
        notes=tuple(notes),
    )


def _checkpoints(folder: Path, log: Sequence[Record]) -> dict[int, str]:
    """Checkpoints that are there, by step: Ray numbers them apart from the iterations."""
    named = [(record.step, record.fields.get(CHECKPOINT)) for record in log]
    return {
        int(step): str(folder / name)
        for step, name in named
        if isinstance(name, str) and is_plain_name(name)
        if step.is_integer() and (folder / name).is_dir()
    }


def _is_snapshot(file: Path) -> bool:
    if f'"{RESULTS}"'.encode() not in first_bytes(file, START):
        return False
    try:
        return _document(file) is not None
    except InputError:
        return True  # reading it says what is wrong


def _document(file: Path) -> dict[str, Any] | None:
    document = parsed_or_none(read_bytes(file), file)
    is_snapshot = isinstance(document, dict) and isinstance(document.get(RESULTS), list)
    return document if is_snapshot else None


def _of_training(file: Path) -> Log:
    """Its steps count reports, from 0, unless checkwise reported them."""
    document = _document(file)
    if document is None:
        raise InputError(
            f"Expected a trial of Ray Tune, or a snapshot of Ray Train's checkpoints, but {file} "
            "holds none: copy it again from where it was written.",
            code="format",
        )
    log = _records(document, file)
    trained = _by_training_step(log)
    steps = f"steps are {STEP}" if trained else "steps count reports"
    note = f"Ray Train keeps the metrics of saved checkpoints only: {steps}"
    return _log(file, trained or log, STEP if trained else REPORTS, (EPOCH, STEP), (note,))


def _by_training_step(log: Sequence[Record]) -> list[Record]:
    """Every step once, where all reports name it: a training that was resumed may report one again.

    The report that came last counts.
    """
    steps = [place(record.fields.get(STEP)) for record in log]
    if not all(step.is_integer() for step in steps):  # nan is none
        return []
    latest = {step: replace(record, step=step) for step, record in zip(steps, log, strict=True)}
    return [latest[step] for step in sorted(latest)]


def _records(document: dict[str, Any], file: Path) -> list[Record]:
    """The results in the order in which they were reported."""
    results = document[RESULTS]
    for result in results:
        if not isinstance(result, dict) or not (
            CHECKPOINT in result and isinstance(result.get("metrics"), dict)
        ):
            raise InputError(
                f"Expected {CHECKPOINT} and metrics in every result, but got {shown(result)} in "
                f"{file}: remove that result.",
                code="format",
            )
    if not results:
        raise NoRecordsError(
            f"Expected reports with checkpoints, but {file} holds none: report metrics with "
            "ray.train.report(metrics, checkpoint=checkpoint).",
            code="empty",
        )
    reports = document.get(REPORTS)
    if not isinstance(reports, list) or [type(r) for r in reports] != [int] * len(results):
        # Results may stand in the order of a score; the names hold the time.
        results = sorted(results, key=lambda result: str(result[CHECKPOINT]))
        reports = list(range(len(results)))
    log = [
        Record(
            step=place(report),
            epoch=place(result["metrics"].get(EPOCH)),
            fields=flattened(result["metrics"]) | {CHECKPOINT: result[CHECKPOINT]},
        )
        for report, result in zip(reports, results, strict=True)
    ]
    return sorted(log, key=lambda record: record.step)
