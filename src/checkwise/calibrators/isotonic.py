"""``isotonic``: a monotone function per class, one against the rest, normalised.

Zadrozny and Elkan (2002). Steps are joined by straight lines. A step function gives probabilities
of 0, so the result is mixed with the uniform distribution of weight 1 / (n + 1): Laplace's
rule, as in the library ``probmetrics`` (Berta et al. 2025).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from checkwise.calibrators.calibrator import FARTHEST, Calibrator, Optimum, Params, numbers
from checkwise.metrics import FloatArray, Logits, probabilities, together
from checkwise.statistics import isotonic

_RESOLUTION = float(np.finfo(np.float64).resolution)


def best(logits: Logits) -> Optimum:
    """Knots and levels of every class."""
    z, y = together(logits)
    absent = np.flatnonzero(np.bincount(y, minlength=z.shape[1]) == 0)
    if len(absent):
        lost = f"class {absent[0]} has" if len(absent) == 1 else f"{len(absent)} classes have"
        return Optimum(missing=f"{lost} no validation example")
    p = probabilities(z)
    steps = [_steps(p[:, c], (y == c).astype(np.float64)) for c in range(z.shape[1])]
    knots, levels = [k.tolist() for k, _ in steps], [v.tolist() for _, v in steps]
    return Optimum({"knots": knots, "levels": levels, "uniform": 1 / (len(y) + 1)})


def look_up(logits: FloatArray, params: Params) -> FloatArray:
    """log of the normalised levels, mixed with the uniform distribution."""
    p = probabilities(logits)
    columns = zip(p.T, params["knots"], params["levels"], strict=True)
    level = np.stack([np.interp(*column) for column in columns], axis=1)
    total = level.sum(axis=1, keepdims=True)
    share = np.divide(level, total, out=np.full_like(level, 1 / level.shape[1]), where=total > 0)
    uniform = params["uniform"]
    with np.errstate(divide="ignore"):
        log_p = np.log1p(-uniform) + np.log(share)
    return np.asarray(np.logaddexp(log_p, np.log(uniform / share.shape[1])))


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
    return numbers(params.get("uniform"), least=1 / FARTHEST, most=0.5) and all(
        isinstance(x, list)
        and len(x) > 0
        and all(numbers(one, len(x), least=0, most=1) for one in (x, y))
        and all(low < high for low, high in pairwise(x))
        for x, y in zip(knots, levels, strict=True)
    )


ISOTONIC = Calibrator(
    "isotonic",
    "a monotone function per class, normalised, with a uniform part of weight 1 / (n + 1)",
    best,
    look_up,
    valid,
    keeps_predictions=False,
)
