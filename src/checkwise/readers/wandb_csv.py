"""W&B's charts, exported as CSV.

The export of a chart has the x axis in its first column and three columns for each run and
metric: ``run - metric`` and its ``__MIN`` and ``__MAX`` over the points that the chart drew as one.
Exports of several charts in one folder are joined by the names of their runs. The history of a
run, ``run.history().to_csv()``, is an ordinary table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from checkwise.errors import InputError
from checkwise.metrics import is_number
from checkwise.readers.csv_file import CsvFile, header_of, open_csv_file
from checkwise.readers.log import WANDB, Log, Points, each
from checkwise.readers.request import NoRecordsError, Request, names_in
from checkwise.words import printable, shown

BETWEEN = " - "  # a run and a metric
EXTREMES = ("__MIN", "__MAX")
MOST_FILES = 1000  # exports in one folder
TIMES = ("relative time (process)", "relative time (wall)", "relative time", "wall time")
NOT_METRICS = ("_step", "_runtime", "_timestamp")  # what W&B adds to every record


def recognises(path: Path) -> bool:
    """Whether a file is the export of a chart, or a folder holds some."""
    return bool(_charts(path))


def read(path: Path, request: Request) -> list[Log]:
    """A log for every run in the export of a chart, or in the exports in a folder."""
    by_run: dict[str, dict[str, list[CsvFile]]] = {}
    for chart in map(_chart, _charts(path)):
        for run, metric in filter(None, map(_run_and_metric, chart.header[1:])):
            by_run.setdefault(run, {}).setdefault(metric, []).append(chart)
    if not by_run:
        raise NoRecordsError(
            f"Expected columns named `run - metric`, but {path} has none: export the chart again, "
            "with at least one run shown.",
            code="empty",
        )
    return [
        Log(
            path=path,
            trainer=WANDB,
            header=tuple(columns),
            columns=each(partial(_points, run, columns)),
            run=printable(run) if len(by_run) > 1 else "",
            axes=_axes(run, [chart for charts in columns.values() for chart in charts]),
        )
        for run, columns in by_run.items()
    ]


def _axes(run: str, charts: Sequence[CsvFile]) -> dict[str, str]:
    first = charts[0]
    for chart in charts:
        if chart.header[0] != first.header[0]:
            raise InputError(
                f"Expected one x axis for the run {shown(run)}, but {first.path} has "
                f"{shown(first.header[0])} and {chart.path} has {shown(chart.header[0])}: export "
                "both charts with the x axis Step.",
                code="ambiguous",
            )
    return {"epoch" if _is_of_epochs(first) else "step": first.header[0]}


def _points(run: str, columns: Mapping[str, list[CsvFile]], name: str) -> Points:
    chart, *others = columns[name]
    if others:
        raise InputError(
            f"Expected {shown(name)} of the run {shown(run)} in one export, but {chart.path} and "
            f"{others[0].path} both hold it: remove the older file.",
            code="ambiguous",
        )
    full = f"{run}{BETWEEN}{name}"
    place = chart.header.index(full)
    extremes = [chart.header.index(full + e) for e in EXTREMES if full + e in chart.header]
    rows = list(chart.rows())
    # Points may stand for several values: means over a group of runs, or over steps.
    if len(extremes) == len(EXTREMES) and any(len({row[k] for k in extremes}) > 1 for row in rows):
        raise InputError(
            f"Expected the values of single evaluations, but {shown(name)} in {chart.path} is the "
            "mean of several (its __MIN and __MAX differ): ungroup the runs, or export "
            "`run.history(samples=10**6)`.",
            code="format",
        )
    filled = [row for row in rows if row[place]]
    wrong = next((row[0] for row in filled if not is_number(row[0])), None)
    if wrong is not None:
        raise InputError(
            f"Expected a number as {shown(chart.header[0])}, but got {shown(wrong)} in {chart.path}"
            ": export the chart with the x axis Step.",
            code="format",
        )
    along = np.array([float(row[0]) for row in filled])
    unknown = np.full(len(filled), np.nan)
    steps, epochs = (unknown, along) if _is_of_epochs(chart) else (along, unknown)
    return Points(steps=steps, epochs=epochs, cells=[row[place] for row in filled])


def _is_of_epochs(chart: CsvFile) -> bool:
    return chart.header[0].lower().rpartition("/")[2] == "epoch"


def _run_and_metric(column: str) -> tuple[str, str] | None:
    """The parts of a column's name; None for one that holds no metric's value."""
    run, between, metric = column.rpartition(BETWEEN)
    if not between or not run or metric.endswith(EXTREMES) or metric in NOT_METRICS:
        return None
    return run, metric


def _charts(path: Path) -> list[Path]:
    """The exports of charts in a folder, or the one that a file is."""
    if not path.is_dir():
        return [path] if _is_chart(path) else []
    tables = [name for name in names_in(path) if name.lower().endswith(".csv")]
    return [path / name for name in tables[:MOST_FILES] if _is_chart(path / name)]


def _is_chart(path: Path) -> bool:
    """Whether all columns but the first are runs' metrics, and some have both extremes."""
    if not path.is_file():  # a pipe would wait for a writer
        return False
    try:
        columns = set(header_of(path, (",",))[1:])
    except InputError:
        return False
    return all(BETWEEN in name for name in columns) and any(
        {name + ending for ending in EXTREMES} <= columns for name in columns
    )


def _chart(path: Path) -> CsvFile:
    chart = open_csv_file(path, (",",))
    if chart.header[0].lower() in TIMES:
        raise InputError(
            f"Expected steps or epochs in the first column, but {path} has "
            f"{shown(chart.header[0])}: set the chart's x axis to Step, then export it again.",
            code="format",
        )
    twice, times = Counter(chart.header).most_common(1)[0]
    if times > 1:  # two runs of one name: nobody can tell their columns apart
        raise InputError(
            f"Expected every run and metric once, but {path} has two columns {shown(twice)}: give "
            "the runs names of their own in W&B, then export the chart again.",
            code="ambiguous",
        )
    list(chart.rows())  # refuses damage at once
    return chart
