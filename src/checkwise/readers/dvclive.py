"""DVCLive's folder: a table ``plots/metrics/<split>/<metric>.tsv`` of steps for every metric."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from checkwise.errors import InputError
from checkwise.metrics import is_number
from checkwise.readers.columns import Side, side
from checkwise.readers.csv_file import open_csv_file
from checkwise.readers.log import DVCLIVE, Log, Points, each
from checkwise.readers.request import Request
from checkwise.readers.rows import trainer_of
from checkwise.records import Columns
from checkwise.words import shortened

METRICS: Final = "plots/metrics"
MOST: Final = 10_000  # tables


def recognises(path: Path) -> bool:
    """Whether a folder is DVCLive's, or a file is its summary."""
    folder = path if path.is_dir() else path.parent
    return (path.is_dir() or path.name == "metrics.json") and bool(_tables(folder))


def own_folders(folder: Path) -> set[str]:
    """Its tables and pictures, which are of the same run."""
    return {"plots"} if _tables(folder) else set()


def read(path: Path, request: Request) -> list[Log]:
    """The log of a run; a column is a table."""
    folder = path if path.is_dir() else path.parent
    tables = _tables(folder)
    if len(tables) > MOST:
        raise InputError(
            f"Expected up to {MOST:,} tables of metrics, but {folder / METRICS} has more: move the "
            "tables of validation into a folder of their own run.",
            code="unsupported",
        )
    inside = trainer_of(["epoch", *tables])  # Ultralytics' metrics are of validation
    return [
        Log(
            path=folder,
            trainer=replace(DVCLIVE, validation=inside.validation, own_score=inside.own_score),
            header=tuple(name for name in tables if name not in ("epoch", "step")),
            columns=each(partial(_points, tables)),
            said=partial(_said, tables),
        )
    ]


def _tables(folder: Path) -> dict[str, Path]:
    root = folder / METRICS
    if not root.is_dir():
        return {}
    found = sorted(islice(root.rglob("*.tsv"), MOST + 1))
    return {path.relative_to(root).with_suffix("").as_posix(): path for path in found}


def _points(tables: dict[str, Path], name: str) -> Points:
    file = open_csv_file(tables[name], ("\t",), may_be_torn=True)
    metric = name.rpartition("/")[2]
    if "step" not in file.header or metric not in file.header:
        raise InputError(
            f"Expected columns step and {metric}, but {file.path} has {shortened(file.header)}: "
            "check that it is DVCLive's.",
            code="format",
        )
    rows = list(file.rows())
    step, value = file.header.index("step"), file.header.index(metric)
    steps = [float(row[step]) if is_number(row[step]) else np.nan for row in rows]
    return Points(np.array(steps), np.full(len(rows), np.nan), [row[value] for row in rows])


def _said(tables: dict[str, Path]) -> Columns:
    """The cells beside the metric, in the tables that could be of validation."""
    for name, path in tables.items():
        if side(name, DVCLIVE) in (Side.HELD_OUT, Side.TRAINING):
            continue
        file = open_csv_file(path, ("\t",), may_be_torn=True)
        if "step" not in file.header or {*file.header} == {"step", name.rpartition("/")[2]}:
            continue
        rows = [row for row in file.rows() if row[file.header.index("step")]]
        for column, cells in zip(file.header, zip(*rows, strict=True), strict=bool(rows)):
            if column != "step":
                yield column, cells
