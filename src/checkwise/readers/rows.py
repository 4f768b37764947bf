"""A log of rows, as CSV and JSON hold it: where its steps are, and how its columns are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from checkwise.errors import InputError
from checkwise.metrics import is_number
from checkwise.readers.columns import EPOCH_COLUMNS, STEP_COLUMNS, tokens
from checkwise.readers.log import Log, Points, Trainer
from checkwise.readers.request import Request
from checkwise.records import EMPTY, Columns, check_sorting

# Gives the cells under some names, at least of the rows in which the first of them is filled.
Rows = Callable[[Sequence[str]], Iterator[Sequence[Any]]]
AT_ONCE = 1000  # rows that are turned into columns together


def log_of_rows(
    path: Path,
    trainer: Trainer,
    header: Sequence[str],
    rows: Rows,
    request: Request,
    *,
    beside: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Log:
    """The log whose rows carry their step or epoch in a column.

    ``beside`` are columns that can hold no metric, and may say which rows are held out.
    """
    axes = axes_of(header, request, path)
    check_sorting(header, {}, str(path), told=False)
    others = [name for name in (*header, *beside) if name not in axes.values()]

    def points(column: str) -> Points:
        names = [column, axes.get("step", ""), axes.get("epoch", "")]
        present = [name for name in names if name]
        steps: list[float] = []
        epochs: list[float] = []
        cells: list[Any] = []
        for row in rows(present):
            if is_empty(row[0]):
                continue
            beside = iter(row[1:])
            steps.append(_place(next(beside)) if names[1] else np.nan)
            epochs.append(_place(next(beside)) if names[2] else np.nan)
            cells.append(row[0])
        return Points(np.array(steps, np.float64), np.array(epochs, np.float64), cells)

    def said() -> Columns:
        for axis in axes.values():
            left = rows([axis, *others])
            while some := list(islice(left, AT_ONCE)):
                filled = [row[1:] for row in some if not is_empty(row[0])]
                if filled:
                    yield from zip(others, zip(*filled, strict=True), strict=True)

    return Log(path, trainer, tuple(header), points, axes=axes, said=said, notes=tuple(notes))


def axes_of(header: Sequence[str], request: Request, path: Path) -> dict[str, str]:
    """The columns that say where in the training a row belongs.

    Raises:
        InputError: there is none, or a column that the caller names is not there.
    """
    axes: dict[str, str] = {}
    for axis, spellings in (("step", STEP_COLUMNS), ("epoch", EPOCH_COLUMNS)):
        named = request.columns.get(axis)
        if named is not None and named not in header:
            raise InputError(
                f"Expected a column {named!r} for {axis}, but {path} has "
                f"{', '.join(header[:12])[:200]}: check the name.",
                code="missing",
            )
        by_words = {" ".join(tokens(column)): column for column in reversed(header)}
        column = named or next((by_words[s] for s in spellings if s in by_words), None)
        if column is not None:
            axes[axis] = column
    if not axes:
        raise InputError(
            f"Expected a column with steps or epochs, but {path} has "
            f"{', '.join(header[:12])[:200] or 'nothing'}: name it with --column step=COLUMN.",
            code="missing",
        )
    return axes


def has_axis(header: Sequence[str]) -> bool:
    """Whether a header has a column of steps or epochs."""
    spelt = {" ".join(tokens(column)) for column in header}
    return not spelt.isdisjoint((*STEP_COLUMNS, *EPOCH_COLUMNS))


def is_empty(cell: Any) -> bool:
    """Whether a cell holds no single value; ``nan`` is one."""
    return (
        cell is None or isinstance(cell, list) or (isinstance(cell, str) and cell.lower() in EMPTY)
    )


def _place(cell: Any) -> float:
    """A step or epoch; nan where there is none that can be used."""
    if isinstance(cell, bool) or not is_number(cell):
        return np.nan
    return float(cell)
