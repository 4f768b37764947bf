"""Trackio's ``<project>.db``: an sqlite table of JSON records, one for each ``trackio.log``.

The package ``trackio`` is not needed: the table is documented, and reading through the package
changes the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.readers import stores
from checkwise.readers.json_lines import flattened, parsed_or_none
from checkwise.readers.log import TRACKIO, Log
from checkwise.readers.request import NoRecordsError, Request, size_of
from checkwise.readers.rows import log_of_records
from checkwise.words import shown

OF_TRACKIO = {"metrics": ("run_name", "metrics"), "configs": ("run_name", "config")}
REQUIRED = {"metrics": ("id", "run_name", "step", "metrics")}
# The column `step` counts calls of `trackio.log`. Callbacks of trainers log the step of the
# training beside the metrics: checkwise, transformers, Lightning.
STEPS_OF_TRAINERS = ("checkwise/step", "train/global_step", "trainer/global_step")
EPOCHS = ("epoch", "train/epoch")


def recognises(path: Path) -> bool:
    """Whether a file is an sqlite database with Trackio's tables."""
    return path.is_file() and stores.has_tables(path, OF_TRACKIO)


def read(path: Path, request: Request) -> list[Log]:
    """A log for every run of the project."""
    stores.check_columns(
        path, REQUIRED, "open the project once with a newer Trackio, which brings it up to date"
    )
    size_of(path)
    by_run: dict[str, list[tuple[Any, ...]]] = {}
    for row in stores.read(path, _rows):
        by_run.setdefault(str(row[0]), []).append(row)
    if not by_run:
        raise NoRecordsError(
            f"Expected a run with metrics, but the Trackio project {path} has none: log metrics "
            "with trackio.log({name: value}).",
            code="empty",
        )
    names = stores.unique_run_names({run: str(rows[-1][1]) for run, rows in by_run.items()})
    return [_log(path, names[run], rows, request) for run, rows in by_run.items()]


def _rows(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    """Run, its name, step, record and its number, in the order in which they were logged."""
    has_ids = "run_id" in stores.columns_of(connection, "metrics")
    run = "COALESCE(run_id, run_name)" if has_ids else "run_name"
    return stores.rows_of(
        connection, f"SELECT {run}, run_name, step, metrics, id FROM metrics ORDER BY id"
    )


def _log(path: Path, name: str, rows: Sequence[tuple[Any, ...]], request: Request) -> Log:
    records = []
    for _, _, step, cell, number in rows:
        # Trackio writes UTF-8 bytes into a column of text.
        where = f"{path} row {number}"
        fields = parsed_or_none(cell, where) if isinstance(cell, str | bytes) else None
        if not isinstance(fields, dict):
            raise InputError(
                f"Expected a JSON object in metrics.metrics, but got {shown(cell)} in {path} row "
                f"{shown(number)}: delete that row.",
                code="format",
            )
        records.append({**flattened(fields), "step": step})
    named = {
        name for record in records for name, cell in record.items() if type(cell) in (int, float)
    }
    axes = {"step": next((name for name in STEPS_OF_TRAINERS if name in named), "step")}
    epoch = next((name for name in EPOCHS if name in named), None)
    axes |= {"epoch": epoch} if epoch else {}
    without = ("step", *STEPS_OF_TRAINERS, *EPOCHS)
    return log_of_records(
        path, records, request, trainer=TRACKIO, axes=axes, without=without, run=name
    )
