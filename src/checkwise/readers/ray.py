"""Ray's logs: Ray Tune's ``result.json`` and Ray Train's ``checkpoint_manager_snapshot.json``.

``progress.csv`` beside a ``result.json`` is the same trial, without the columns that came up later.
Version 2 of Ray Train writes no ``result.json``, and keeps no report without a checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.readers.json_lines import flattened, parsed_or_none, read_lines
from checkwise.readers.log import RAY, Log
from checkwise.readers.request import NoRecordsError, Request, first_bytes, opened, read_bytes
from checkwise.readers.rows import log_of_records
from checkwise.store import is_plain_name
from checkwise.words import shown

RESULT = "result.json"
ITERATION = "training_iteration"
EPOCH = "epoch"
CHECKPOINT = "checkpoint_dir_name"
# Beside the iteration, one of these is in every record of Ray's and in few of anybody else's.
OF_RAY = ("trial_id", "time_total_s", "iterations_since_restore")
NOT_METRICS = (
    "date", "done", "episodes_total", "experiment_id", "experiment_tag",
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

Records = Sequence[Mapping[str, Any]]


def recognises(path: Path) -> bool:
    """Whether a file is of a trial or a training, or a folder holds one."""
    return any(_is_trial(file) or _is_snapshot(file) for file in _files(path))


def read(path: Path, request: Request) -> list[Log]:
    """The log of one trial or training; what a restored trial appended stands behind the rest."""
    trial = next(filter(_is_trial, _files(path)), None)
    if trial is None:
        return [_of_training(_files(path)[-1], request)]
    lines, notes = read_lines(trial)
    records = [flattened({**line.fields, "config": None}) for line in lines]
    return [_log(trial, records, ITERATION, notes, request)]


def _files(path: Path) -> list[Path]:
    return [path / RESULT, path / SNAPSHOT] if path.is_dir() else [path]


def _is_trial(file: Path) -> bool:
    if not file.is_file():
        return False
    try:
        with opened(file) as lines:
            first = json.loads(lines.readline(LONGEST_LINE))
    except (InputError, ValueError, RecursionError):
        return False
    return isinstance(first, dict) and ITERATION in first and any(key in first for key in OF_RAY)


def _log(file: Path, records: Records, step: str, notes: Sequence[str], request: Request) -> Log:
    has_epochs = any(type(record.get(EPOCH)) in (int, float) for record in records)
    return log_of_records(
        file,
        records,
        request,
        trainer=RAY,
        axes={"step": step} | ({"epoch": EPOCH} if has_epochs else {}),
        without=(ITERATION, EPOCH, STEP, *NOT_METRICS) if step == ITERATION else (EPOCH, STEP),
        files=_checkpoints(file.parent, records, step),
        notes=tuple(notes),
    )


def _checkpoints(folder: Path, records: Records, step: str) -> dict[int, str]:
    """Checkpoints that are there, by step: Ray numbers them apart from the iterations."""
    named = [(record.get(step), record.get(CHECKPOINT)) for record in records]
    return {
        int(at): str(folder / name)
        for at, name in named
        if isinstance(name, str) and is_plain_name(name)
        if isinstance(at, int | float) and at == at // 1 and (folder / name).is_dir()
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


def _of_training(file: Path, request: Request) -> Log:
    """Its steps count reports, from 0, unless checkwise reported them.

    Where all reports name a training step, one may come twice, as of a training that was resumed:
    the report that came last counts.
    """
    document = _document(file)
    if document is None:
        raise InputError(
            f"Expected a trial of Ray Tune, or a snapshot of Ray Train's checkpoints, but {file} "
            "holds none: copy it again from where it was written.",
            code="format",
        )
    records = _reported(document, file)
    steps_told: list[Any] = [record.get(STEP) for record in records]
    is_trained = all(type(step) in (int, float) and step == step // 1 for step in steps_told)
    if is_trained:
        by_step = dict(zip(steps_told, records, strict=True))
        records = [by_step[step] for step in sorted(by_step)]
    steps = f"steps are {STEP}" if is_trained else "steps count reports"
    note = f"Ray Train keeps the metrics of saved checkpoints only: {steps}"
    return _log(file, records, STEP if is_trained else REPORTS, (note,), request)


def _reported(document: dict[str, Any], file: Path) -> list[dict[str, Any]]:
    """The records in the order in which they were reported, each with its number."""
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
    records = [
        flattened(result["metrics"]) | {REPORTS: report, CHECKPOINT: result[CHECKPOINT]}
        for report, result in zip(reports, results, strict=True)
    ]
    return sorted(records, key=lambda record: record[REPORTS])
