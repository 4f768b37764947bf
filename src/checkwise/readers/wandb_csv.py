"""W&B's charts, exported as CSV.

The export of a chart has the x axis in its first column and three columns for each run and
metric: ``run - metric`` and its ``__MIN`` and ``__MAX`` over the points that the chart drew as one.
Exports of several charts in one folder are joined by the names of their runs. The history of a
run, ``run.history().to_csv()``, is an ordinary table.
"""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import nan
from pathlib import Path

import numpy as np

from checkwise.errors import InputError
from checkwise.readers.json_lines import NoRecordsError
from checkwise.readers.log import WANDB, FloatArray, Log, Points
from checkwise.readers.request import read_bytes
from checkwise.store import open_regular
from checkwise.words import printable, shown

BETWEEN = " - "  # a run and a metric
EXTREMES = ("__MIN", "__MAX")
LONGEST_HEADER = 1 << 22  # bytes; a chart of a thousand runs has some hundred thousand
MOST_FILES = 1000  # exports in one folder
TIMES = ("relative time (process)", "relative time (wall)", "relative time", "wall time")
NOT_METRICS = ("_step", "_runtime", "_timestamp")  # what W&B adds to every record


@dataclass(frozen=True, eq=False)
class Chart:
    """The export of one chart."""

    path: Path
    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]

    @property
    def axis(self) -> str:
        return self.header[0]


def recognises(path: Path) -> bool:
    """Whether a file is the export of a chart, or a folder holds some."""
    if path.is_dir():
        return any(_is_chart(file) for file in _tables(path))
    return _is_chart(path)


def open_logs(path: Path) -> list[Log]:
    """A log for every run in the export of a chart, or in the exports in a folder."""
    files = [file for file in _tables(path) if _is_chart(file)] if path.is_dir() else [path]
    charts = [_chart(file) for file in files]
    by_run: dict[str, dict[str, list[Chart]]] = {}
    for chart in charts:
        for run, metric in filter(None, map(_run_and_metric, chart.header[1:])):
            by_run.setdefault(run, {}).setdefault(metric, []).append(chart)
    if not by_run:
        raise NoRecordsError(
            f"Expected columns named `run - metric`, but {path} has none: export the chart again, "
            "with at least one run shown.",
            code="empty",
        )
    return [_log(path, run, columns, len(by_run) > 1) for run, columns in by_run.items()]


def _log(path: Path, run: str, columns: Mapping[str, list[Chart]], is_one_of_many: bool) -> Log:
    charts = list(dict.fromkeys(chart for metric in columns.values() for chart in metric))
    return Log(
        path=path,
        trainer=WANDB,
        header=tuple(columns),
        points=partial(_points, run, columns),
        run=printable(run) if is_one_of_many else "",
        axes=_axes(run, charts),
    )


def _axes(run: str, charts: Sequence[Chart]) -> dict[str, str]:
    first, *others = charts
    for chart in others:
        if chart.axis != first.axis:
            raise InputError(
                f"Expected one x axis for the run {shown(run)}, but {first.path} has "
                f"{shown(first.axis)} and {chart.path} has {shown(chart.axis)}: export both charts "
                "with the x axis Step.",
                code="ambiguous",
            )
    return {"epoch" if _is_epoch(first.axis) else "step": first.axis}


def _points(run: str, columns: Mapping[str, list[Chart]], name: str) -> Points:
    chart, *others = columns[name]
    if others:
        raise InputError(
            f"Expected {shown(name)} of the run {shown(run)} in one export, but {chart.path} and "
            f"{others[0].path} both hold it: remove the older file.",
            code="ambiguous",
        )
    index = chart.header.index(f"{run}{BETWEEN}{name}")
    _check_single(chart, run, name)
    filled = [(row[0], row[index]) for row in chart.rows if row[index].strip()]
    along = np.array([_number(cell, chart) for cell, _ in filled], dtype=np.float64)
    unknown: FloatArray = np.full(len(filled), nan)
    steps, epochs = (unknown, along) if _is_epoch(chart.axis) else (along, unknown)
    return Points(steps=steps, epochs=epochs, cells=[cell for _, cell in filled])


def _check_single(chart: Chart, run: str, name: str) -> None:
    """Refuse points that stand for several values: means over a group of runs, or over steps."""
    least, most = (f"{run}{BETWEEN}{name}{extreme}" for extreme in EXTREMES)
    if least not in chart.header or most not in chart.header:
        return
    low, high = chart.header.index(least), chart.header.index(most)
    if any(row[low] != row[high] for row in chart.rows):
        raise InputError(
            f"Expected the values of single evaluations, but {shown(name)} in {chart.path} is the "
            "mean of several (its __MIN and __MAX differ): ungroup the runs, or export "
            "`run.history(samples=10**6)`.",
            code="format",
        )


def _number(cell: str, chart: Chart) -> float:
    try:
        return float(cell)
    except ValueError:
        raise InputError(
            f"Expected a number as {shown(chart.axis)}, but got {shown(cell)} in {chart.path}: "
            "export the chart with the x axis Step.",
            code="format",
        ) from None


def _is_epoch(axis: str) -> bool:
    return axis.lower().rpartition("/")[2] == "epoch"


def _run_and_metric(column: str) -> tuple[str, str] | None:
    """The parts of a column's name; None for one that holds no metric's value."""
    run, between, metric = column.rpartition(BETWEEN)
    if not between or not run or metric.endswith(EXTREMES) or metric in NOT_METRICS:
        return None
    return run, metric


def _is_chart(path: Path) -> bool:
    """Whether all columns but the first are runs' metrics, and some have both extremes."""
    if not path.is_file():  # a pipe would wait for a writer
        return False
    try:
        with open_regular(path) as file:
            line = file.readline(LONGEST_HEADER).decode("utf-8-sig")
        names = next(csv.reader([line], strict=True), [])
    except (OSError, ValueError, csv.Error):
        return False
    columns = set(names[1:])
    return all(BETWEEN in name for name in columns) and any(
        {name + ending for ending in EXTREMES} <= columns for name in columns
    )


def _tables(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.name.lower().endswith(".csv")]
    except OSError:
        return []
    return [folder / name for name in sorted(names)[:MOST_FILES]]


def _chart(path: Path) -> Chart:
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"Expected UTF-8 text, but {path} is not (byte {error.start}): export the chart again.",
            code="format",
        ) from None
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = tuple(next(lines, []))
        numbered = [(lines.line_num, row) for row in lines if row]
    except csv.Error as error:
        raise InputError(
            f"Expected comma-separated values, but {path} line {lines.line_num} is not ({error}): "
            "export the chart again.",
            code="format",
        ) from None
    if header and header[0].lower() in TIMES:
        raise InputError(
            f"Expected steps or epochs in the first column, but {path} has {shown(header[0])}: "
            "set the chart's x axis to Step, then export it again.",
            code="format",
        )
    for number, row in numbered:
        if len(row) != len(header):
            raise InputError(
                f"Expected {len(header)} cells as in the first line, but {path} line {number} has "
                f"{len(row)}: export the chart again.",
                code="format",
            )
    _check_names(header, path)
    return Chart(path, header, [row for _, row in numbered])


def _check_names(header: Sequence[str], path: Path) -> None:
    """Refuse two runs of one name: nobody can tell their columns apart."""
    (twice, times), *_ = Counter(header).most_common(1) or [("", 0)]
    if times > 1:
        raise InputError(
            f"Expected every run and metric once, but {path} has two columns {shown(twice)}: give "
            "the runs names of their own in W&B, then export the chart again.",
            code="ambiguous",
        )
