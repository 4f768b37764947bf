"""Ray Train's ``checkpoint_manager_snapshot.json``: the metrics of every checkpoint that it kept.

Version 2 of Ray Train writes no ``result.json``, and keeps no report without a checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.readers import stores
from checkwise.readers.json_lines import NoRecordsError, flattened, parsed
from checkwise.readers.log import RAY, Log
from checkwise.readers.ray_tune import CHECKPOINT, EPOCH, checkpoint_folders
from checkwise.readers.request import read_bytes
from checkwise.readers.stores import Record
from checkwise.store import open_regular
from checkwise.words import shown

SNAPSHOT = "checkpoint_manager_snapshot.json"
RESULTS = "checkpoint_results"
REPORTS = "checkpoint_report_indices"
STEP = "checkwise/step"  # of the callbacks of checkwise
START = 4096  # bytes in which a snapshot names its first results


def recognises(path: Path) -> bool:
    """Whether a file is a snapshot of Ray Train's checkpoints, or a folder holds one."""
    file = _file(path)
    try:
        if not file.is_file():
            return False
        with open_regular(file) as start:
            return f'"{RESULTS}"'.encode() in start.read(START) and _document(file) is not None
    except OSError:
        return False
    except InputError:
        return True  # reading it says what is wrong


def open_logs(path: Path) -> list[Log]:
    """The log of one training; its steps count reports, from 0, unless checkwise reported them."""
    file = _file(path)
    document = _document(file)
    if document is None:
        raise InputError(
            f"Expected a snapshot of Ray Train's checkpoints, but {file} holds none: copy it again "
            "from where it was written.",
            code="format",
        )
    log = _records(document, file)
    trained = _by_training_step(log)
    log = trained or log
    columns = stores.numeric(record.fields for record in log)
    steps = f"steps are {STEP}" if trained else "steps count reports"
    return [
        Log(
            path=file,
            trainer=RAY,
            header=tuple(name for name in columns if name not in (EPOCH, STEP)),
            points=partial(stores.points, log),
            said=partial(stores.said, log),
            files=checkpoint_folders(file.parent, log),
            axes={"step": STEP if trained else REPORTS}
            | ({"epoch": EPOCH} if EPOCH in columns else {}),
            notes=(f"Ray Train keeps the metrics of saved checkpoints only: {steps}",),
        )
    ]


def _by_training_step(log: Sequence[Record]) -> list[Record]:
    """Every step once, where all reports name it: a training that was resumed may report one again.

    The report that came last counts.
    """
    steps = [stores.axis(record.fields.get(STEP)) for record in log]
    if not all(step.is_integer() for step in steps):  # nan is none
        return []
    latest = {step: replace(record, step=step) for step, record in zip(steps, log, strict=True)}
    return [latest[step] for step in sorted(latest)]


def _records(document: dict[str, Any], file: Path) -> list[Record]:
    """The results in the order in which they were reported."""
    results = [_result(result, file) for result in document[RESULTS]]
    if not results:
        raise NoRecordsError(
            f"Expected reports with checkpoints, but {file} holds none: report metrics with "
            "ray.train.report(metrics, checkpoint=checkpoint).",
            code="empty",
        )
    reports = document.get(REPORTS)
    if not isinstance(reports, list) or [type(r) for r in reports] != [int] * len(results):
        # Results may stand in the order of a score; the names hold the time.
        results.sort(key=lambda result: str(result[CHECKPOINT]))
        reports = list(range(len(results)))
    log = [
        Record(
            step=stores.axis(report),
            epoch=stores.axis(result["metrics"].get(EPOCH)),
            fields=flattened(result["metrics"]) | {CHECKPOINT: result[CHECKPOINT]},
        )
        for report, result in zip(reports, results, strict=True)
    ]
    return sorted(log, key=lambda record: record.step)


def _file(path: Path) -> Path:
    return path / SNAPSHOT if path.is_dir() else path


def _document(file: Path) -> dict[str, Any] | None:
    try:
        document = parsed(read_bytes(file), file)
    except InputError:
        raise
    except (ValueError, RecursionError):
        return None
    is_snapshot = isinstance(document, dict) and isinstance(document.get(RESULTS), list)
    return document if is_snapshot else None


def _result(result: Any, file: Path) -> dict[str, Any]:
    if not (
        isinstance(result, dict)
        and CHECKPOINT in result
        and isinstance(result.get("metrics"), dict)
    ):
        raise InputError(
            f"Expected {CHECKPOINT} and metrics in every result, but got {shown(result)} in "
            f"{file}: remove that result.",
            code="format",
        )
    return result
