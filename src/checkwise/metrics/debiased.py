"""Calibration errors without the bias that few examples per bin bring.

A bin's observed frequency differs from its confidence by chance alone, so plain binned errors are
above zero for perfectly calibrated predictions. Kumar, Liang and Ma (2019) subtract an estimate of
that part from every squared gap.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.metrics.settings import BINS

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def debiased_ece(probs: FloatArray, labels: IntArray) -> float:
    """Squared gap of the top label in hard bins, less chance; 0 where chance explains it all."""
    return max(0.0, top_label_gap(probs, labels))


def debiased_cwece(probs: FloatArray, labels: IntArray) -> float:
    """Squared gap in hard bins, class-wise, less chance; 0 where chance explains it all."""
    return max(0.0, class_wise_gap(probs, labels))


def top_label_gap(probs: FloatArray, labels: IntArray, bins: int = BINS) -> float:
    """Σ_b |B_b|/n ((ā_b − ū_b)² − ā_b (1 − ā_b)/(|B_b| − 1)) over bins ((b − 1)/B, b/B].

    A bin with fewer than two examples gives 0. Can be negative.

    Example:
        >>> round(top_label_gap(np.array([[0.75, 0.25], [0.75, 0.25]]), np.array([0, 1])), 6)
        -0.1875
    """
    top, correct = probs.max(axis=1), probs.argmax(axis=1) == labels
    return float(_squared_gaps(_bin_of(top, bins), top, correct, bins).sum() / len(labels))


def class_wise_gap(probs: FloatArray, labels: IntArray, bins: int = BINS) -> float:
    """The same for every class against the rest, over all n examples; the mean over classes.

    Example:
        >>> round(class_wise_gap(np.array([[0.75, 0.25], [0.75, 0.25]]), np.array([0, 1])), 6)
        -0.1875
    """
    n, classes = probs.shape
    cell = _bin_of(probs, bins) + bins * np.arange(classes)
    seen = np.arange(classes) == np.asarray(labels)[:, None]
    gaps = _squared_gaps(cell.ravel(), probs.ravel(), seen.ravel(), bins * classes)
    return float(gaps.sum() / n / classes)


def _bin_of(p: FloatArray, bins: int) -> IntArray:
    return np.clip(np.ceil(bins * p).astype(np.int64) - 1, 0, bins - 1)


def _squared_gaps(cell: IntArray, p: FloatArray, seen: NDArray[Any], cells: int) -> FloatArray:
    """|B| times (squared gap less the variance of the frequency) of every bin of two or more."""
    count = np.bincount(cell, minlength=cells)
    mass = np.bincount(cell, weights=p, minlength=cells)
    events = np.bincount(cell, weights=seen, minlength=cells)
    there = count > 1
    count, mass, events = count[there], mass[there], events[there]
    frequency = events / count
    chance = frequency * (1 - frequency) / (count - 1)
    return np.asarray(count * ((frequency - mass / count) ** 2 - chance))
