"""``isotonic``: a monotone function per class, one against the rest, normalised.

Zadrozny and Elkan (2002). Steps are joined by straight lines. A step function gives probabilities
of 0, so the result is mixed with the uniform distribution of weight 1 / (n + 1), as in ``ts-mix``.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from checkwise.calibrators.calibrator import Calibrator, Optimum, Params, numbers
from checkwise.calibrators.examples import FloatArray, IntArray, Logits, together
from checkwise.calibrators.ts_mix import mixed, valid_share
from checkwise.metrics.probabilities import probabilities
from checkwise.statistics.ranks import isotonic

_RESOLUTION = float(np.finfo(np.float64).resolution)


def best(logits: Logits) -> Optimum:
    """Knots and levels of every class."""
    z, y = together(logits)
    missing = absent_classes(y, z.shape[1])
    if missing:
        return Optimum(missing=missing)
    p = probabilities(z)
    steps = [_steps(p[:, c], (y == c).astype(np.float64)) for c in range(z.shape[1])]
    knots, levels = [k.tolist() for k, _ in steps], [v.tolist() for _, v in steps]
    return Optimum({"knots": knots, "levels": levels, "uniform": 1 / (len(y) + 1)})


def absent_classes(labels: IntArray, classes: int) -> str:
    """Why classes cannot be calibrated one by one, or nothing."""
    absent = np.flatnonzero(np.bincount(labels, minlength=classes) == 0)
    if not len(absent):
        return ""
    if len(absent) == 1:
        return f"class {absent[0]} has no validation example"
    return f"{len(absent)} classes have no validation example"


def look_up(logits: FloatArray, params: Params) -> FloatArray:
    """log of the normalised levels, mixed with the uniform distribution."""
    p = probabilities(logits)
    columns = zip(p.T, params["knots"], params["levels"], strict=True)
    level = np.stack([np.interp(*column) for column in columns], axis=1)
    total = level.sum(axis=1, keepdims=True)
    share = np.divide(level, total, out=np.full_like(level, 1 / level.shape[1]), where=total > 0)
    with np.errstate(divide="ignore"):
        return mixed(np.log(share), params["uniform"])


def _steps(x: FloatArray, hit: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The ends of every level of the monotone fit: enough to interpolate.

    Probabilities that differ by rounding alone count as equal.
    """
    order = np.sort(x)
    starts = order[np.concatenate([[True], np.diff(order) >= _RESOLUTION])]
    x = starts[np.searchsorted(starts, x, side="right") - 1]
    knots, first = np.unique(x, return_index=True)
    level = isotonic(x, hit)[first]
    inner = np.zeros(len(level), dtype=bool)
    inner[1:-1] = (level[1:-1] == level[:-2]) & (level[1:-1] == level[2:])
    return knots[~inner], level[~inner]


def valid(params: Params, classes: int) -> bool:
    """Increasing knots and as many levels for every class, all of them probabilities."""
    knots: Any = params.get("knots")
    levels: Any = params.get("levels")
    if not all(isinstance(one, list) and len(one) == classes for one in (knots, levels)):
        return False
    return valid_share(params.get("uniform")) and all(
        isinstance(x, list)
        and len(x) > 0
        and all(numbers(one, len(x), least=0, most=1) for one in (x, y))
        and all(low < high for low, high in pairwise(x))
        for x, y in zip(knots, levels, strict=True)
    )


ISOTONIC = Calibrator(
    "isotonic",
    "a monotone function per class, normalised, with a uniform part of weight 1 / (n + 1)",
    "many numbers per class; a look-up",
    best,
    look_up,
    valid,
    keeps_predictions=False,
)
