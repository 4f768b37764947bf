"""The numbers of a log in the units of a trajectory: fractions, decimals, and NLL if it can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from math import isfinite, log

import numpy as np

from checkwise.errors import InputError
from checkwise.readers.logs.column_words import says_percent
from checkwise.readers.logs.log import FloatArray
from checkwise.readers.logs.trainers import Trainer
from checkwise.text import listed

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
    """Accuracies as fractions, and why they were percentages if they were.

    Args:
        table: one column of accuracies per validation set, [T, E].
        columns: what these are called.
        trainer: whose log it is.
        where: the log, for messages.

    Raises:
        InputError: the unit is not clear.
    """
    reasons = [
        _percent_by(table[:, place], column, trainer, where) for place, column in enumerate(columns)
    ]
    if not any(reasons):
        near_one = (table > 1) & (table <= LARGEST_FRACTION)
        return np.where(near_one, 1.0, table), ()
    if not all(reasons):
        lacking = columns[reasons.index("")]
        raise InputError(
            f"Expected accuracies in one unit, but in {where} {columns[_first(reasons)]} is in "
            f"percent ({reasons[_first(reasons)]}), and nothing says so of {lacking}: give columns "
            "in one unit.",
            code="ambiguous",
        )
    return _hundredths(table), (f"accuracy in percent: {listed([*dict.fromkeys(reasons)])}",)


def _first(reasons: Sequence[str]) -> int:
    return next(place for place, reason in enumerate(reasons) if reason)


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


def _hundredths(table: FloatArray) -> FloatArray:
    """Hundredths of the decimals as written: 58.78 becomes 0.5878, not 0.5878000000000001."""
    return np.array(
        [
            [float(f"{value!r}e-2") if np.isfinite(value) else value for value in row]
            for row in table.tolist()
        ]
    )


def complements(table: FloatArray) -> FloatArray:
    """1 minus decimals as written: 0.07 becomes 0.93, not 0.9299999999999999."""
    return np.array(
        [[float(1 - Decimal(repr(value))) if isfinite(value) else value for value in row]
         for row in table.tolist()]
    )  # fmt: skip


def no_cross_entropy(values: Mapping[str, FloatArray]) -> str:
    """Why a loss cannot be the mean cross-entropy; "" where it can.

    A wrong prediction gives its true class at most 1/2, so the mean is at least
    (1 − accuracy)·ln 2. Means over batches of unequal size may fall a little below.

    Example:
        >>> no_cross_entropy({"accuracy": np.array([[0.5]]), "nll": np.array([[0.1]])})
        'is smaller than any cross-entropy at these accuracies'
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
