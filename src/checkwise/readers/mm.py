"""mmengine's ``scalars.json``, and ``.log.json`` of mmcv 0.x: rows of training and of validation.

A row of validation has no ``mode`` or ``mode`` val, and counts epochs or iterations as the training
does: ``epoch_N.pth`` or ``iter_N.pth`` lies in the folder of the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from checkwise.errors import InputError
from checkwise.readers.json_lines import flattened, read_lines
from checkwise.readers.log import MMENGINE, Log
from checkwise.readers.request import Request, first_bytes, names_in
from checkwise.readers.rows import log_of_records

NAME: Final = "scalars.json"
OLD: Final = ".log.json"
START: Final = 1 << 18  # the first line of 0.x may hold the whole configuration
_NOT_METRICS: Final = ("step", "epoch", "iter", "mode", "lr", "memory", "time", "data_time", "eta")

Row = Mapping[str, Any]


def recognises(path: Path) -> bool:
    """Whether a file is such a log, or a folder holds one."""
    return _log_in(path) is not None


def read(path: Path, request: Request) -> list[Log]:
    """The log of validation, by epochs where the training counts them, else by iterations."""
    file = _log_in(path) or path
    lines, notes = read_lines(file)
    rows = [line.fields for line in lines]
    training = [row for row in rows if _is_training(row)]
    by_epoch = _counts_epochs(training)
    records, last = [], 0
    for row in rows:
        if _is_training(row):
            last = row.get("iter", last)
        elif row.get("mode", "val") == "val" and ("step" in row or "mode" in row):
            place = row.get("epoch", row.get("step")) if by_epoch else row.get("step", last)
            values = flattened({n: v for n, v in row.items() if n not in _NOT_METRICS})
            records.append({("epoch" if by_epoch else "step"): place, **values})
    if not any(len(record) > 1 for record in records):
        raise InputError(
            f"Expected rows of validation, but {file} has those of training alone: set "
            "val_interval, or `evaluation` in 0.x.",
            code="missing",
        )
    axis = "epoch" if by_epoch else "step"
    measured = {name for record in records for name in record} - {axis}
    folders = (".",) if file.name.endswith(OLD) else MMENGINE.folders
    trainer = replace(MMENGINE, validation=tuple(sorted(measured)), folders=folders)
    return [log_of_records(file, records, request, axes={axis: axis}, trainer=trainer, notes=notes)]


def _log_in(path: Path) -> Path | None:
    if not path.is_dir():
        return path if _is_log(path) else None
    names = [name for name in names_in(path) if name == NAME or name.endswith(OLD)]
    return next((path / name for name in names if _is_log(path / name)), None)


def _is_log(path: Path) -> bool:
    if path.suffix != ".json":
        return False
    start = first_bytes(path, START)
    new = b'"data_time"' in start and b'"step"' in start
    return b'"iter"' in start and (new or b'"mode": "train"' in start)


def _is_training(row: Row) -> bool:
    return row.get("mode") == "train" or ("mode" not in row and "iter" in row)


def _counts_epochs(training: Sequence[Row]) -> bool:
    """Whether the rows of training have epochs, and in 0.x begin to count again in each."""
    epochs = [row.get("epoch") for row in training]
    if not epochs or None in epochs:
        return False
    if "step" in training[0] or all(epoch == epochs[0] for epoch in epochs):
        return True
    iterations = [row.get("iter") for row in training]
    return any(not _less(one, two) for one, two in pairwise(iterations))


def _less(one: Any, two: Any) -> bool:
    return isinstance(one, int) and isinstance(two, int) and one < two
