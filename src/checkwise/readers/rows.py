"""Named columns of numbers per step → the log of a run: what nearly every format is.

A format that has records calls :func:`log_of_records`, one whose cells are read when asked for
:func:`log_of_rows`. Both find the columns of steps and epochs by their names, unless told.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from checkwise.errors import InputError
from checkwise.metrics import is_number
from checkwise.readers import log
from checkwise.readers.columns import EPOCH_COLUMNS, STEP_COLUMNS, Side, side, tokens
from checkwise.readers.log import Log, Points, Trainer
from checkwise.readers.request import Request
from checkwise.records import EMPTY, FACTS, REQUIRED, Columns, check_sorting, is_validation_of

# The cells under some names, row by row; every call begins at the first row.
Rows = Callable[[Sequence[str]], Iterable[Sequence[Any]]]
AT_ONCE = 1000  # rows that are turned into columns together
RUN_COLUMNS = ("run", "dataset", "algorithm", "hparams_seed", "trial_seed")
# How JSON that knows no such numbers spells them.
NOT_FINITE = ("NaN", "Infinity", "-Infinity")


def trainer_of(header: Sequence[str]) -> Trainer:
    """Whose log it is, by the columns that only this trainer writes."""
    names = set(header)
    if {"epoch", "train_loss", "eval_loss", "eval_top1"} <= names:
        return log.TIMM
    measured = tuple(name for name in header if name.startswith("metrics/"))
    if "epoch" in names and measured:
        return replace(log.ULTRALYTICS, validation=measured)
    if {"epoch", "train_loss", "valid_loss", "time"} <= names:
        # All further columns are metrics on validation, unless their names say otherwise.
        others = [name for name in header if name not in ("epoch", "train_loss", "time")]
        of_validation = (Side.VALIDATION, Side.UNKNOWN)
        measured = tuple(name for name in others if side(name, log.OTHER) in of_validation)
        return replace(log.FASTAI, validation=measured)
    if "_step" in names and names & {"_runtime", "_timestamp"}:
        return log.WANDB
    if {"training_iteration", "trial_id"} <= names:
        return log.RAY
    if "epoch" in names and any(f"val_{name}" in names for name in names):
        return log.KERAS
    return log.LIGHTNING if {"epoch", "step"} <= names else log.OTHER


def is_tidy(header: Sequence[str], request: Request) -> bool:
    """Whether columns are those of a table with a row per step and domain, under checkwise's names.

    Everything else is a trainer's log, whose columns are found by rules.
    """
    names = {*header, *request.columns}
    if names & ({*FACTS, *RUN_COLUMNS} - {"step"}):
        return True
    if not names.issuperset(REQUIRED) or "accuracy" in request.columns:
        return False
    if trainer_of(header).validation:
        return False
    others = (column for column in header if column != "accuracy")
    return not any(is_validation_of(column, "accuracy") for column in others)


def log_of_rows(
    path: Path,
    header: Sequence[str],
    rows: Rows,
    request: Request,
    *,
    trainer: Trainer | None = None,
    axes: Mapping[str, str] | None = None,
    beside: Iterable[str] = (),
    records: Callable[[], Iterable[Mapping[str, Any]]] | None = None,
    **facts: Any,
) -> Log:
    """The log whose rows carry their step or epoch in a column, or None where they have none.

    ``beside`` are columns that can hold no metric, and may say which rows are held out;
    ``records`` are the rows by name, where each fills a few of very many columns.
    """
    axes = axes_of(header, request, path) if axes is None else axes
    check_sorting(header, {}, str(path), told=False)
    others = [name for name in (*header, *beside) if name not in axes.values()]

    def columns(names: Sequence[str]) -> dict[str, Points]:
        return _points(axes, names, rows([*axes.values(), *names]))

    def said() -> Columns:
        if records is not None:
            yield from _said(records(), [*axes.values()], others)
            return
        left = iter(rows([*axes.values(), *others]))
        while some := list(islice(left, AT_ONCE)):
            filled = [row[len(axes) :] for row in some if not all(map(_is_empty, row[: len(axes)]))]
            if filled:
                yield from zip(others, zip(*filled, strict=True), strict=True)

    trainer = trainer or trainer_of(header)
    return Log(path, trainer, tuple(header), columns, axes=axes, said=said, **facts)


def log_of_records(
    path: Path,
    records: Sequence[Mapping[str, Any]],
    request: Request,
    *,
    axes: Mapping[str, str] | None = None,
    without: Iterable[str] = (),
    **facts: Any,
) -> Log:
    """The log of records that name their numbers; what has a number anywhere is a column.

    ``without`` are names of numbers that measure no model.
    """
    names = {name: False for record in records for name in record}
    for record in records:
        for name, cell in record.items():
            if type(cell) in (int, float) or (isinstance(cell, str) and cell in NOT_FINITE):
                names[name] = True
    own = {*without, *(axes or {}).values()}
    header = [name for name, is_column in names.items() if is_column and name not in own]

    def rows(wanted: Sequence[str]) -> Iterator[Sequence[Any]]:
        for record in records:
            yield [record.get(name) for name in wanted]

    # The texts under `checkwise/` are of a choice that was logged: its path, its rule, why.
    beside = [name for name in names if name not in header and not name.startswith("checkwise/")]
    return log_of_rows(
        path, header, rows, request, axes=axes, beside=beside, records=lambda: records, **facts
    )


def _said(
    records: Iterable[Mapping[str, Any]], axes: Sequence[str], names: Sequence[str]
) -> Columns:
    """The cells under names in parts, each with one empty cell where any record has none."""
    filled = (one for one in records if not all(_is_empty(one.get(name)) for name in axes))
    found_in, parts = dict.fromkeys(names, 0), 0
    while some := list(islice(filled, AT_ONCE)):
        parts += 1
        cells: dict[str, list[Any]] = {}
        for record in some:
            for name, cell in record.items():
                if name in found_in:
                    cells.setdefault(name, []).append(cell)
        for name, found in cells.items():
            found_in[name] += 1
            yield name, found if len(found) == len(some) else [*found, None]
    yield from ((name, [None]) for name, found in found_in.items() if found < parts)


def _points(
    axes: Mapping[str, str], names: Sequence[str], rows: Iterable[Sequence[Any]]
) -> dict[str, Points]:
    """The filled cells under some names, from rows that begin with the cells of ``axes``."""
    places = {axis: place for place, axis in enumerate(axes)}
    steps, epochs = ([array("d") for _ in names] for _ in range(2))
    cells: list[list[Any]] = [[] for _ in names]
    for row in rows:
        step = _place(row[places["step"]]) if "step" in places else np.nan
        epoch = _place(row[places["epoch"]]) if "epoch" in places else np.nan
        for column, cell in enumerate(row[len(axes) :]):
            if not _is_empty(cell):
                steps[column].append(step)
                epochs[column].append(epoch)
                cells[column].append(cell)
    return {
        name: Points(np.array(steps[k]), np.array(epochs[k]), cells[k])
        for k, name in enumerate(names)
    }


def axes_of(header: Sequence[str], request: Request, path: Path) -> dict[str, str]:
    """The columns that say where in the training a row belongs; at least one has to be there."""
    axes: dict[str, str] = {}
    has = ", ".join(header[:12])[:200] or "nothing"
    by_words = {" ".join(tokens(column)): column for column in reversed(header)}
    for axis, spellings in (("step", STEP_COLUMNS), ("epoch", EPOCH_COLUMNS)):
        named = request.columns.get(axis)
        if named is not None and named not in header:
            raise InputError(
                f"Expected a column {named!r} for {axis}, but {path} has {has}: check the name.",
                code="missing",
            )
        column = named or next((by_words[s] for s in spellings if s in by_words), None)
        if column is not None:
            axes[axis] = column
    if not axes:
        raise InputError(
            f"Expected a column with steps or epochs, but {path} has {has}: name it with "
            "--column step=COLUMN.",
            code="missing",
        )
    return axes


def has_axis(header: Sequence[str]) -> bool:
    """Whether a header has a column of steps or epochs."""
    spelt = {" ".join(tokens(column)) for column in header}
    return not spelt.isdisjoint((*STEP_COLUMNS, *EPOCH_COLUMNS))


def _is_empty(cell: Any) -> bool:
    """Whether a cell holds nothing; ``nan`` is something."""
    return cell is None or (isinstance(cell, str) and cell.lower() in EMPTY)


def _place(cell: Any) -> float:
    """A step or epoch; nan where there is none that can be used."""
    return float(cell) if is_number(cell) else np.nan
