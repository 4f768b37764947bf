"""Metrics of many resamples of the same predictions, without looking at an example twice.

A resample is a row of counts. Every sum behind a metric is a product of that row with numbers per
example (`sufficient`), so thousands of resamples are a few matrix products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.metrics import inputs
from checkwise.metrics.compiling import entry
from checkwise.metrics.report import NAMES
from checkwise.metrics.settings import BANDWIDTH, BINS
from checkwise.metrics.smooth import CLAMP, TERMS, padded, small_series
from checkwise.metrics.sufficient import Sufficient, sufficient

Array = np.ndarray[Any, np.dtype[Any]]
FloatArray = NDArray[np.float64]

RESAMPLED: Final = NAMES
CLASS_WISE: Final = ("cwece", "hard_cwece")
_POWERS_AT_ONCE = 1 << 25  # numbers per example that are held for some of the classes, 256 MB
_SUMS_AT_ONCE = 1 << 20  # numbers of a block of resamples, which should stay in the cache


def resampled(
    names: Iterable[str],
    counts: Array,
    *,
    logits: Any = None,
    probs: Any = None,
    labels: Any,
    bins: int = BINS,
    bandwidth: float = BANDWIDTH,
) -> dict[str, FloatArray]:
    """Metrics by name, [D], of D resamples: what `evaluate` gives on each of them.

    Args:
        names: which of the built-in metrics.
        counts: [D, n], how often each example is in each resample; no row is all 0.
        logits: [n, C] raw scores, or
        probs: [n, C] probabilities.
        labels: [n].
        bins, bandwidth: settings of the calibration errors.

    Example:
        >>> z, y = np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([0, 0])
        >>> resampled(["accuracy"], np.array([[1, 1], [2, 0]]), logits=z, labels=y)
        {'accuracy': array([0.5, 1. ])}
    """
    predictions = inputs.read(logits=logits, probs=probs, labels=labels)
    n, classes = len(predictions.labels), predictions.classes
    wanted = _known(names)
    if counts.ndim != 2 or counts.shape[1] != n:
        raise InputError(
            f"Expected counts of {n} examples, but got shape {list(counts.shape)}: give one "
            "column per example."
        )
    values = {name: np.zeros(len(counts)) for name in wanted}
    # Only class-wise metrics need numbers per class; many classes are taken a part at a time.
    size = max(1, _POWERS_AT_ONCE // (n * TERMS)) if set(wanted) & set(CLASS_WISE) else 1
    for first in range(0, classes if set(wanted) & set(CLASS_WISE) else 1, size):
        part = range(first, min(first + size, classes))
        parts = sufficient(predictions, part, bins=bins, bandwidth=bandwidth)
        measures = {
            name: _MEASURES[name](parts, part, bins, bandwidth)
            for name in wanted
            if name in CLASS_WISE or first == 0
        }
        for rows, block in _blocks(counts, parts):
            for name, measure in measures.items():
                values[name][rows] += measure(block)
    if "cwece" in values:
        values["cwece"] /= classes
    return values


def _known(names: Iterable[str]) -> list[str]:
    wanted = list(names)
    unknown = [name for name in wanted if name not in RESAMPLED]
    if unknown:
        raise InputError(
            f"Expected metrics among {', '.join(RESAMPLED)}, but got {unknown[0]!r}.",
            code="unknown",
        )
    return wanted


def _blocks(counts: Array, parts: Sufficient) -> Iterator[tuple[slice, FloatArray]]:
    """Rows of counts as floats, a block at a time."""
    n, classes, terms = parts.powers.shape
    size = max(16, _SUMS_AT_ONCE // (n + classes * (terms + math.prod(parts.soft.shape[1:]))))
    for start in range(0, len(counts), size):
        rows = slice(start, min(start + size, len(counts)))
        yield rows, counts[rows].astype(np.float64)


# A measure is prepared once for the examples, then applied to blocks of resamples [R, n].
_Measure = Callable[[FloatArray], FloatArray]


def _mean(per_example: str) -> Callable[..., _Measure]:
    def prepare(parts: Sufficient, *_: Any) -> _Measure:
        values = getattr(parts, per_example)
        return lambda counts: np.asarray(counts @ values / counts.sum(axis=1))

    return prepare


def _ece(parts: Sufficient, *_: Any) -> _Measure:
    """sum_b W_b (a_b - u_b)^2 / n, every denominator at least 1e-8."""
    width = parts.top.shape[2]
    top = parts.top.reshape(len(parts.top), -1)

    def measure(counts: FloatArray) -> FloatArray:
        sums = counts @ top
        weight, gap = sums[:, :width], sums[:, width:]
        squares = weight * (gap / np.maximum(weight, CLAMP)) ** 2
        return np.asarray(squares.sum(axis=1) / counts.sum(axis=1))

    return measure


def _hard_ece(parts: Sufficient, classes: range, bins: int, bandwidth: float) -> _Measure:
    gaps = _one_hot(parts.top_bin, bins) * parts.top_gap[:, None]
    return lambda counts: np.asarray(np.abs(counts @ gaps).sum(axis=1) / counts.sum(axis=1))


def _worst_class(parts: Sufficient, *_: Any) -> _Measure:
    members = _one_hot(parts.labels, int(parts.labels.max()) + 1)
    correct = members * parts.correct[:, None]

    def measure(counts: FloatArray) -> FloatArray:
        support = counts @ members
        recall = counts @ correct / np.where(support == 0, 1.0, support)
        return np.asarray(np.where(support == 0, np.inf, recall).min(axis=1))

    return measure


def _cwece(parts: Sufficient, classes: range, bins: int, bandwidth: float) -> _Measure:
    """sum_c sum_b V_cb / sum_r V_cr (y_cb - p_cb)^2: the small probabilities, then the entries."""
    by_bin = np.zeros((TERMS, 2, padded(bins)))
    by_bin[:, :, :bins] = small_series(bins, bandwidth)
    by_bin[:, 1] *= -1  # the gap is the labels' sum less that of v p
    series = by_bin.reshape(TERMS, -1)
    soft, powers = (part.reshape(len(part), -1) for part in (parts.soft, parts.powers))

    def measure(counts: FloatArray) -> FloatArray:
        small = (counts @ powers).reshape(len(counts), len(classes), TERMS)
        total = np.zeros(len(counts))
        for c in range(len(classes)):
            rows = slice(parts.starts[c], parts.starts[c + 1])
            sums = small[:, c] @ series
            if rows.stop > rows.start:
                sums += counts[:, parts.examples[rows]] @ soft[rows]
            _add_class_error(sums, total)
        return total

    return measure


@entry
def _add_class_error(sums: FloatArray, total: FloatArray) -> None:
    """Add one class's sum_b V_b (gap_b)^2 / sum_r V_r; sums are V and V times the gap, [R, 2 Q]."""
    width = sums.shape[1] // 2
    for d in range(len(sums)):
        weight, error = 0.0, 0.0
        for b in range(width):
            v = sums[d, b]
            gap = sums[d, width + b] / max(v, CLAMP)
            error += v * gap * gap
            weight += v
        total[d] += error / max(weight, CLAMP)


def _hard_cwece(parts: Sufficient, classes: range, bins: int, bandwidth: float) -> _Measure:
    """sum_c n_c / n sum_b |labels - mass| / n; small probabilities are in the first bin."""
    mass = np.ascontiguousarray(parts.powers[:, :, 0])

    def measure(counts: FloatArray) -> FloatArray:
        total, small = np.zeros(len(counts)), counts @ mass
        for c in range(len(classes)):
            rows = slice(parts.starts[c], parts.starts[c + 1])
            placed = _one_hot(parts.hard[rows], bins) * parts.hard_gap[rows, None]
            gaps = counts[:, parts.examples[rows]] @ placed
            gaps[:, 0] -= small[:, c]
            support = counts @ (parts.labels == classes[c])
            total += support * np.abs(gaps).sum(axis=1)
        return np.asarray(total / counts.sum(axis=1) ** 2)

    return measure


def _one_hot(index: Array, size: int) -> FloatArray:
    return np.asarray(index[:, None] == np.arange(size), dtype=np.float64)


_MEASURES: Final[dict[str, Callable[..., _Measure]]] = {
    "accuracy": _mean("correct"),
    "nll": _mean("nll"),
    "brier": _mean("brier"),
    "ece": _ece,
    "cwece": _cwece,
    "hard_ece": _hard_ece,
    "hard_cwece": _hard_cwece,
    "worst_class_accuracy": _worst_class,
}
