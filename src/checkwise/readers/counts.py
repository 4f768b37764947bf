"""Accuracies that no number of correct predictions gives: a mistake in ``accuracy`` or ``n``."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from checkwise.readers.request import LoadedRun
from checkwise.records import Trajectory

_DIGITS = 12  # beyond these a decimal is what dividing by 100 left of a shorter one
_MANTISSAS = (8, 11, 24, 53)  # bits of bfloat16, float16, float32 and float64


def impossible_accuracy(runs: Sequence[LoadedRun]) -> str | None:
    """One line about the first such accuracy and how many there are; None where there is none."""
    doubtful = [(run, places) for run in runs if (places := impossible(run.trajectory))]
    if not doubtful:
        return None
    run, places = doubtful[0]
    t, e = places[0]
    accuracy, n = _value(run.trajectory, t, e)
    correct = round(accuracy * n)
    more = sum(len(places) for _, places in doubtful) - 1
    others = f" and {more} more" if more else ""
    return (
        f"Expected a whole number of correct predictions, but accuracy = {accuracy:.10g} with n = "
        f"{n} at step {run.trajectory.steps[t]}, domain {run.trajectory.domains[e]!r} in "
        f"{run.where} gives none (nearest: {correct} of {n} = {correct / n:.6g}){others}: check "
        "both columns; accuracies are compared as logged, not exactly."
    )


def impossible(run: Trajectory) -> list[tuple[int, int]]:
    """Where accuracy × n is not whole, even allowing for how the accuracy was rounded."""
    if run.counts is None or run.correct is not None or "accuracy" not in run.values:
        return []
    return [
        (t, e)
        for t in np.flatnonzero(~run.diverged).tolist()
        for e in range(len(run.domains))
        if not possible(*_value(run, t, e))
    ]


def _value(run: Trajectory, t: int, e: int) -> tuple[float, int]:
    assert run.counts is not None
    return float(run.values["accuracy"][t, e]), int(run.counts[e])


def possible(accuracy: float, n: int) -> bool:
    """Whether a whole number of correct predictions gives an accuracy, as it was rounded."""
    return abs(accuracy - round(accuracy * n) / n) <= rounding(accuracy) * (1 + 1e-9)


def rounding(value: float) -> float:
    """How far a logged number can be from what was measured: half its last digit or bit."""
    exponent = Decimal(repr(round(value, _DIGITS))).as_tuple().exponent
    digits = -exponent if isinstance(exponent, int) else 0
    bits = value.as_integer_ratio()[0].bit_length()
    mantissa = next(width for width in _MANTISSAS if bits <= width)
    return max(0.5 * 10.0**-digits, value * 2.0**-mantissa)
