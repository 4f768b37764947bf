"""Metrics that somebody else has measured: names and numbers of one checkpoint on one domain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from checkwise.errors import InputError
from checkwise.records.checkpoint_record import DomainRecord
from checkwise.records.checks import LARGEST_COUNT, LARGEST_DIFFERENCE, outside, plain_name
from checkwise.text import shown

_COUNTS: Final = ("n", "correct")


def plain_metrics(entry: Mapping[str, Any], where: str) -> DomainRecord:
    """``{"accuracy": 0.9, "nll": 0.3, "n": 500}`` as a record; numbers may be 0-d arrays.

    A checkpoint with a value that is not finite counts as diverged.

    Example:
        >>> plain_metrics({"accuracy": 0.9, "n": 10}, "step 1")
        DomainRecord(values={'accuracy': 0.9}, n=10, correct=9, classes=None, labels=None)
    """
    counts = {name: _count(entry[name], name, where) for name in _COUNTS if name in entry}
    values = {
        plain_name(name, "a metric's name"): _number(value, name, where)
        for name, value in entry.items()
        if name not in _COUNTS
    }
    if not values:
        raise InputError(
            f"Expected at least one metric at {where}, but got none: give accuracy, nll, or any "
            "other score.",
            code="empty",
        )
    n = counts.get("n")
    if not all(np.isfinite(value) for value in values.values()):
        return DomainRecord({}, n)
    for name, value in values.items():
        if outside(np.array(value), name):
            raise InputError(
                f"Expected {name} as a fraction in its range, but got {value:g} at {where}: check "
                "how it was measured."
            )
    return DomainRecord(values, n, _correct(counts, values.get("accuracy"), where))


def _correct(counts: Mapping[str, int], accuracy: float | None, where: str) -> int | None:
    """The number correct as given, or accuracy × n where that is whole."""
    n, correct = counts.get("n"), counts.get("correct")
    if n is None or accuracy is None:
        if correct is not None:
            raise InputError(
                f"Expected n and accuracy beside the number correct at {where}: add them.",
                code="missing",
            )
        return None
    if correct is None:
        product = accuracy * n
        whole = round(product)
        return whole if abs(product - whole) <= min(1e-3 + 1e-7 * n, 0.4) else None
    if correct > n or abs(correct / n - accuracy) > LARGEST_DIFFERENCE:
        raise InputError(
            f"{correct} correct of n = {n} does not fit accuracy {accuracy:g} at {where}: check "
            "both.",
            code="differs",
        )
    return correct


def _count(value: Any, name: str, where: str) -> int:
    number = _number(value, name, where)
    least = 1 if name == "n" else 0
    if not np.isfinite(number) or number != int(number) or not least <= number <= LARGEST_COUNT:
        raise InputError(
            f"Expected a whole number of {least} or more as {name}, but got {shown(value)} at "
            f"{where}."
        )
    return int(number)


def _number(value: Any, name: str, where: str) -> float:
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()  # of NumPy, torch and others
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(
            f"Expected a number for {name}, but got {shown(value)} at {where}: give one value."
        )
    return float(value)
