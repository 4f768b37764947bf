"""From sparse columns to evaluations: one row per checkpoint, with every metric that is read.

Columns are joined by step; by epoch where their steps never meet, as when each metric was logged by
a call of its own. A log may have been written more than once:

- It goes back to where it began, or before: a new run was appended.
- It goes back to a later step: the run was resumed there, and what followed that step before is
  replaced.
- A step is logged twice in a row. If the log goes on, the run was resumed there, and the second is
  read. If the log ends there, and no column shows that the run was resumed before, the second is an
  evaluation after training, of whatever model was loaded then, and the first is read.
- No step comes twice, and the steps go down, or are in the order of their digits as text: the rows
  were sorted otherwise, and are put in order. In any other order nobody can tell: refused.
- Most steps are logged several times in a row, with unlike values: these are of single batches, and
  no mean of them is the value on the whole set. The log is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import groupby, pairwise
from math import isfinite, isnan, log
from typing import Any

import numpy as np

from checkwise.errors import InputError
from checkwise.metrics import is_number
from checkwise.readers.columns import says_percent
from checkwise.readers.log import FloatArray, Points, Trainer
from checkwise.words import counted, listed, shortened, shown

LARGEST_STEP = 2**53
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")


@dataclass(frozen=True)
class Evaluations:
    """The evaluations of one run in order of steps: column → a value per step.

    ``by`` is what steps count, ``step`` or ``epoch``; ``epochs`` has those that the log says.
    """

    steps: tuple[int, ...]
    epochs: Mapping[int, int]
    values: Mapping[str, FloatArray]
    by: str
    notes: tuple[str, ...]


def evaluations(
    columns: Mapping[str, Points], where: str, *, closing: int = 0
) -> list[Evaluations]:
    """The runs in a log, each with its evaluations.

    ``closing`` is how many steps after the last one an evaluation outside the training is logged.
    """
    by = _axis(columns, where)
    read = [_Column.of(name, points, by, where) for name, points in columns.items()]
    resumed = min((key for column in read for key in _goes_back(column.keys)), default=None)
    parts = {column.name: column.runs(resumed) for column in read}
    counts = {name: len(runs) for name, runs in parts.items()}
    number = next(iter(counts.values()))
    if len(set(counts.values())) > 1:
        times = ", ".join(f"{name} {count} times" for name, count in counts.items())
        raise InputError(
            f"Expected every column to begin again as often as the others, but in {where} they "
            f"begin {times}: split the file by run.",
            code="differs",
        )
    runs = [_joined({name: parts[name][k] for name in parts}, by, where) for k in range(number)]
    return _without_single([_without_closing(run, closing) for run in runs])


def _axis(columns: Mapping[str, Points], where: str) -> str:
    """``step`` or ``epoch``: the first in which all columns meet."""
    for name, points in columns.items():
        if not len(points.cells):
            raise InputError(
                f"Expected validation values in the column {name!r}, but {where} has none: train "
                "with validation data, or evaluate the checkpoints with `checkwise predict`.",
                code="missing",
            )
    for by in ("step", "epoch"):
        keys = [points.steps if by == "step" else points.epochs for points in columns.values()]
        if any(np.isnan(column).any() for column in keys):
            continue
        if set.intersection(*(set(column.tolist()) for column in keys)):
            return by
    for name, points in columns.items():
        bare = int((np.isnan(points.steps) & np.isnan(points.epochs)).sum())
        if bare:
            raise InputError(
                f"Expected a whole number as step or epoch beside every value, but {name!r} in "
                f"{where} has {counted(bare, 'value')} without one: complete these rows, or name "
                "the column of steps with --column step=COLUMN.",
                code="missing",
            )
    raise InputError(
        f"Expected {listed(list(columns))} at the same steps or epochs, but in {where} they share "
        "none: log them together, or name the column of steps with --column step=COLUMN.",
        code="differs",
    )


def _goes_back(keys: Sequence[int]) -> list[int]:
    """The steps to which a column goes back."""
    return [key for before, key in pairwise(keys) if key < before]


@dataclass
class _Run:
    """One column of one run: key → value, and the epoch beside it; where it went back to."""

    first: int
    values: dict[int, float] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    back: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Column:
    """The cells of a column with their steps, or epochs, in the order in which they are read."""

    name: str
    keys: Sequence[int]
    epochs: Sequence[float]
    cells: Sequence[Any]
    by: str
    where: str
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, points: Points, by: str, where: str) -> _Column:
        """A column; where its rows were sorted otherwise, in order of steps."""
        numbers = (points.steps if by == "step" else points.epochs).tolist()
        wrong = next((n for n in numbers if not 0 <= n < LARGEST_STEP or n != int(n)), None)
        if wrong is not None:
            raise InputError(
                f"Expected whole numbers of 0 or more as {by}, but got {wrong:g} beside {name!r} "
                f"in {where}: name another column with --column step=COLUMN.",
                code="format",
            )
        keys = [int(number) for number in numbers]
        epochs, cells = points.epochs.tolist(), points.cells
        if len(set(keys)) < len(keys) or len(keys) < 3 or not (back := _goes_back(keys[:-1])):
            return cls(name, keys, epochs, cells, by, where)
        by_text = sorted(keys, key=str)
        if keys not in (sorted(keys)[::-1], by_text, by_text[::-1]):
            raise InputError(
                f"Expected steps in order, or logged again where a run was resumed, but in {where} "
                f"{name!r} goes back to {back[0]} and no step comes twice: sort the rows by step, "
                "or split the file by run.",
                code="format",
            )
        order = np.argsort(keys).tolist()
        keys, epochs, cells = ([row[k] for k in order] for row in (keys, epochs, cells))
        return cls(name, keys, epochs, cells, by, where, ("s are put in order",))

    def runs(self, resumed: int | None) -> list[_Run]:
        """Its runs; ``resumed`` is the first step to which any column goes back."""
        groups = self._groups()
        self._check_batches(groups)
        run = _Run(self.keys[0], notes=[*self.notes])
        runs, before = [run], -1
        for number, (key, places) in enumerate(groups, start=1):
            if key < before and key <= run.first:
                run = _Run(key)
                runs.append(run)
            elif key < before:
                run.back.append(key)
                while run.values and next(reversed(run.values)) >= key:
                    run.values.popitem()
            logged = [self._number(self.cells[place], key) for place in places]
            at_the_end = number == len(groups) or groups[number][0] < key
            if resumed is not None and resumed <= key:
                at_the_end = False
            if at_the_end and len(set(logged)) > 1:
                run.notes.append(f" {key} is logged twice at the end: the first is read")
            run.values[key] = logged[0] if at_the_end else logged[-1]
            epoch = float(self.epochs[places[-1]])
            if epoch.is_integer():
                run.epochs[key] = int(epoch)
            before = key
        for run in runs:
            if run.back:
                places_back = shortened([*map(str, run.back)], 5)
                run.notes.insert(
                    0, f" resumed at {places_back}: what came after before is replaced"
                )
        return runs

    def _groups(self) -> list[tuple[int, list[int]]]:
        """The places of the cells of a step in a row, without the nan that fills sparse rows."""
        groups = []
        for key, members in groupby(range(len(self.keys)), key=self.keys.__getitem__):
            places = list(members)
            if len(places) > 1:
                places = [k for k in places if not _is_nan(self.cells[k])] or places[:1]
            groups.append((key, places))
        return groups

    def _check_batches(self, groups: Sequence[tuple[int, list[int]]]) -> None:
        """Refuse a column in which most steps have several values."""
        several = [(k, p) for k, p in groups if any(self.cells[i] != self.cells[p[0]] for i in p)]
        if not several:
            return
        key, places = max(several, key=lambda one: len(one[1]))
        # One step logged twice may be evaluated again after training; an epoch that never changes
        # is of many trainings of one epoch, and nobody can tell which row is which checkpoint.
        if len(groups) == 1 and (self.by == "epoch" or len(places) > 2):
            raise InputError(
                f"Expected {self.by}s that count on, but every one of the {len(places)} values of "
                f"{self.name!r} in {self.where} is at {self.by} {key}, as where fit(epochs=1) is "
                "called in a loop: pass initial_epoch to fit, or number the rows in that column.",
                code="ambiguous",
            )
        if len(groups) > 1 and 2 * len(several) > len(groups):
            raise InputError(
                f"Expected one value of {self.name!r} per evaluation, but {self.where} has "
                f"{len(places)} at {key}, as of single batches: log the value on the whole "
                "validation set.",
                code="ambiguous",
            )

    def _number(self, cell: Any, key: int) -> float:
        if is_number(cell):
            return float(cell)
        comma = isinstance(cell, str) and _DECIMAL_COMMA.fullmatch(cell)
        raise InputError(
            f"Expected a number{' with a decimal point' if comma else ''} in column {self.name!r}, "
            f"but got {shown(cell)} at {key} in {self.where}: fix that cell.",
            code="format",
        )


def _is_nan(cell: Any) -> bool:
    return cell.lower() == "nan" if isinstance(cell, str) else cell != cell


def _joined(columns: Mapping[str, _Run], by: str, where: str) -> Evaluations:
    everywhere = set.intersection(*(set(run.values) for run in columns.values()))
    # Tables of sparse rows are sometimes filled with nan.
    steps = tuple(
        key
        for key in sorted(everywhere)
        if not all(isnan(run.values[key]) for run in columns.values())
    )
    if not steps:
        raise InputError(
            f"Expected {listed(list(columns))} at the same {by}, but in a part of {where} they "
            "share none: split the file by run.",
            code="differs",
        )
    notes = [f"{by}{note}" for run in columns.values() for note in run.notes]
    for name, run in columns.items():
        if left := len(run.values) - len(steps):
            alone = "stands alone and is" if left == 1 else "stand alone and are"
            notes.append(f"{counted(left, 'value')} of {name} {alone} not read")
    epochs = {key: epoch for run in columns.values() for key, epoch in run.epochs.items()}
    values = {name: np.array([run.values[step] for step in steps]) for name, run in columns.items()}
    return Evaluations(steps, epochs, values, by, tuple(dict.fromkeys(notes)))


def _without_closing(run: Evaluations, closing: int) -> Evaluations:
    """Leave out a last evaluation that the trainer logs a few steps after the training."""
    steps = run.steps
    if not closing or run.by != "step" or len(steps) < 3 or steps[-1] - steps[-2] != closing:
        return run
    if min(np.diff(steps[:-1])) <= closing:
        return run
    note = f"step {steps[-1]} is an evaluation after the training, of another checkpoint: not read"
    values = {name: column[:-1] for name, column in run.values.items()}
    return replace(run, steps=steps[:-1], values=values, notes=(*run.notes, note))


def _without_single(runs: list[Evaluations]) -> list[Evaluations]:
    """Leave out a single evaluation after a longer run: a check of the finished model."""
    longer = [run for place, run in enumerate(runs) if not place or len(run.steps) > 1]
    if len(longer) == len(runs):
        return runs
    left = counted(len(runs) - len(longer), "single evaluation")
    note = f"{left} after the training, logged at an earlier {runs[0].by}, not read"
    return [replace(longer[0], notes=(*longer[0].notes, note)), *longer[1:]]


# Above the first an accuracy is no fraction, whatever rounding did to it; below the second it is
# hardly a percentage.
LARGEST_FRACTION = 1 + 1e-6
LEAST_PERCENTAGE = 2.0
BATCHES = 0.9  # of a mean, what unequal batches may leave
ROUNDING = 1e-4


def shortest(table: FloatArray) -> FloatArray:
    """Numbers that were kept in 32 bits as the shortest decimals that give the same 32 bits.

    So 0.8999999761581421 is the 0.9 that it was, and a tolerance of 0.005 reaches from it to 0.895.
    """
    with np.errstate(over="ignore"):
        single = table.astype(np.float32)
    if not np.array_equal(single.astype(np.float64), table, equal_nan=True):
        return table
    return np.array([[float(str(value)) for value in row] for row in single])


def fractions(
    table: FloatArray, columns: Sequence[str], trainer: Trainer, where: str
) -> tuple[FloatArray, tuple[str, ...]]:
    """Accuracies [T, E] as fractions, and why they were percentages if they were."""
    reasons = [
        _percent_by(table[:, place], column, trainer, where) for place, column in enumerate(columns)
    ]
    if not any(reasons):
        near_one = (table > 1) & (table <= LARGEST_FRACTION)
        return np.where(near_one, 1.0, table), ()
    if not all(reasons):
        column, reason = next(pair for pair in zip(columns, reasons, strict=True) if pair[1])
        raise InputError(
            f"Expected accuracies in one unit, but in {where} {column} is in percent ({reason}), "
            f"and nothing says so of {columns[reasons.index('')]}: give columns in one unit.",
            code="ambiguous",
        )
    table = _exactly(table, lambda decimal: decimal.scaleb(-2))
    return table, (f"accuracy in percent: {listed([*dict.fromkeys(reasons)])}",)


def _percent_by(values: FloatArray, column: str, trainer: Trainer, where: str) -> str:
    """Why a column is in percent; "" for fractions."""
    if column in trainer.percent:
        return f"{trainer.name} logs it so"
    if says_percent(column):
        return "its name says so"
    finite = values[np.isfinite(values)]
    largest = float(finite.max(initial=0.0))
    if largest <= LARGEST_FRACTION:
        return ""
    if largest < LEAST_PERCENTAGE:
        raise InputError(
            f"Expected accuracies from 0 to 1 or in percent, but {column!r} in {where} has values "
            f"up to {largest:g}, which are neither: check that it is an accuracy.",
            code="format",
        )
    return f"values up to {largest:g}"


def complements(table: FloatArray) -> FloatArray:
    """1 minus decimals as written: 0.07 becomes 0.93, not 0.9299999999999999."""
    return _exactly(table, lambda decimal: 1 - decimal)


def _exactly(table: FloatArray, change: Callable[[Decimal], Decimal]) -> FloatArray:
    """Decimals as written, changed: 58.78 % becomes 0.5878, not 0.5878000000000001."""
    rows = table.tolist()
    return np.array(
        [[float(change(Decimal(repr(v)))) if isfinite(v) else v for v in row] for row in rows]
    )


def no_cross_entropy(values: Mapping[str, FloatArray]) -> str:
    """Why a loss cannot be the mean cross-entropy; "" where it can.

    A wrong prediction gives its true class at most 1/2, so the mean is at least
    (1 − accuracy)·ln 2. Means over batches of unequal size may fall a little below.
    """
    if "nll" not in values:
        return ""
    loss = np.where(np.isfinite(values["nll"]), values["nll"], np.inf)
    if (loss < 0).any():
        return "is below 0"
    accuracy = values.get("accuracy")
    if accuracy is None:
        return ""
    with np.errstate(invalid="ignore"):
        least = BATCHES * (1 - accuracy) * log(2) - ROUNDING
        too_small = bool((loss < least).any())
    return "is smaller than any cross-entropy at these accuracies" if too_small else ""
