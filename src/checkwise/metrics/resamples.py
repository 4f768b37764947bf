"""Metrics of many resamples of the same predictions, without looking at an example twice.

A resample is a row of counts. Every sum behind a metric is a product of that row with numbers per
example, so thousands of resamples are a few matrix products.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.metrics import inputs
from checkwise.metrics.examples import measured
from checkwise.metrics.gaussians import TERMS, Grid, new_grid
from checkwise.metrics.inputs import Predictions
from checkwise.metrics.report import bin_errors, class_errors
from checkwise.metrics.settings import BANDWIDTH, BINS, check_bins

Array = np.ndarray[Any, np.dtype[Any]]
FloatArray = NDArray[np.float64]

CLASS_WISE: Final = ("cwece", "hard_cwece")
_POWERS_AT_ONCE = 1 << 25  # numbers per example that are held for some of the classes, 256 MB
_LEAST = 1e-280  # a sum below it counts as 0: its unit would underflow
_SUMS_AT_ONCE = 1 << 20  # numbers of a block of resamples, which should stay in the cache


def summable(values: Array, most: float) -> FloatArray:
    """``values`` [n, ...] rounded so that sums of up to ``most`` of them are exact in any order.

    They become whole numbers of a unit, 2^-52 of the largest possible sum of each column. So BLAS
    may share a product among threads, and ties stay ties.

    Example:
        >>> column = summable(np.full(10, 0.1), 10)
        >>> bool(column.sum() / 10 == column[0]), bool(abs(column[0] - 0.1) < 1e-15)
        (True, True)
    """
    largest = np.abs(values).max(axis=0, initial=0.0) * most
    unit = np.exp2(np.ceil(np.log2(np.where(largest > _LEAST, largest, 1.0))) - 52)
    return np.asarray(np.rint(values / unit) * unit)


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
    examples = _examples(predictions, new_grid(*check_bins(bins, bandwidth)))
    most = int(counts.sum(axis=1, dtype=np.int64).max(initial=1))
    values = {name: np.zeros(len(counts)) for name in wanted}
    for name in wanted:
        if name not in CLASS_WISE:
            _measure(_MEASURES[name](examples, most), counts, values[name], n)
    # Class-wise metrics need numbers per class; many classes are taken a part at a time.
    size = max(1, _POWERS_AT_ONCE // (n * TERMS))
    for first in range(0, classes, size):
        of_classes = range(first, min(first + size, classes))
        for name in set(wanted) & set(CLASS_WISE):
            _measure(_MEASURES[name](examples, most, of_classes), counts, values[name], n)
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


class _Examples(NamedTuple):
    """What n examples are, one by one; an entry is a probability that is treated by itself."""

    grid: Grid
    labels: Array  # [n]
    correct: Array  # [n] 0.0 or 1.0
    nll: Array  # [n]
    brier: Array  # [n]
    confidence: Array  # [n]
    small: Array  # [n, C] p where p <= tau, else 0
    rows: Array  # [L] the example of each entry: each p > tau, and each label
    classes: Array  # [L] its class
    p: Array  # [L] what `small` does not have of its p
    seen: Array  # [L] 1.0 where the class is the label, else 0.0
    weight: Array  # [L] its p


def _examples(predictions: Predictions, grid: Grid) -> _Examples:
    """Measure every example; a row that `evaluate` would refuse is refused."""
    parts = []
    for batch, p in measured(predictions):
        brier = batch.brier(p)
        p[np.arange(len(p)), batch.predicted] = batch.confidence
        parts.append((batch.correct + 0.0, batch.nll, brier, batch.confidence, p))
    correct, nll, brier, confidence, p = (np.concatenate(x) for x in zip(*parts, strict=True))
    labels = predictions.labels
    large = p > grid.tau
    listed = large.copy()
    listed[np.arange(len(labels)), labels] = True
    i, c = np.nonzero(listed)
    weight = p[i, c]
    own = np.where(large[i, c], weight, 0.0)
    p[large] = 0.0
    return _Examples(
        grid, labels, correct, nll, brier, confidence, p, i, c, own, (labels[i] == c) + 0.0, weight
    )


# A measure is prepared once for the examples, then applied to blocks of resamples [R, n].
_Measure = Callable[[FloatArray], FloatArray]


def _measure(measure: _Measure, counts: Array, values: FloatArray, n: int) -> None:
    """Add the measure of every resample, a block of them at a time."""
    size = max(16, _SUMS_AT_ONCE // n)
    for start in range(0, len(counts), size):
        rows = slice(start, start + size)
        values[rows] += measure(counts[rows].astype(np.float64))


def _mean(per_example: str) -> Callable[[_Examples, int], _Measure]:
    def prepare(examples: _Examples, most: int) -> _Measure:
        values = summable(getattr(examples, per_example), most)
        return lambda counts: np.asarray(counts @ values / counts.sum(axis=1))

    return prepare


def _ece(examples: _Examples, most: int) -> _Measure:
    """sum_b W_b (a_b - u_b)^2 / n."""
    shares = examples.grid.shares(examples.confidence)
    gaps = shares * (examples.correct - examples.confidence)
    both = summable(np.concatenate([shares, gaps]).T, most)

    def measure(counts: FloatArray) -> FloatArray:
        weight, gap = np.split(counts @ both, 2, axis=1)
        return np.asarray(bin_errors(weight, gap).sum(axis=1) / counts.sum(axis=1))

    return measure


def _hard_ece(examples: _Examples, most: int) -> _Measure:
    grid, gap = examples.grid, examples.correct - examples.confidence
    gaps = _one_hot(grid.bin_of(grid.cell_of(examples.confidence)), grid.bins)
    gaps = summable(gaps * gap[:, None], most)
    return lambda counts: np.asarray(np.abs(counts @ gaps).sum(axis=1) / counts.sum(axis=1))


def _worst_class(examples: _Examples, most: int) -> _Measure:
    members = _one_hot(examples.labels, int(examples.labels.max()) + 1)
    correct = members * examples.correct[:, None]

    def measure(counts: FloatArray) -> FloatArray:
        support = counts @ members
        recall = counts @ correct / np.where(support == 0, 1.0, support)
        return np.asarray(np.where(support == 0, np.inf, recall).min(axis=1))

    return measure


def _cwece(examples: _Examples, most: int, classes: range) -> _Measure:
    """sum_c sum_b V_cb / sum_r V_cr (y_cb - p_cb)^2: the small probabilities, then the entries."""
    grid = examples.grid
    series = grid.small.copy()
    series[:, 1] *= -1  # the gap is the labels' sum less that of v p
    series = series.reshape(TERMS, -1)
    part = examples.small[:, classes.start : classes.stop]
    x = part / grid.tau - 0.5
    powers = np.empty((*part.shape, TERMS))
    for k in range(TERMS):
        powers[:, :, k] = part if k == 0 else powers[:, :, k - 1] * x
    powers = summable(powers.reshape(len(part), -1), most)
    entries = _entries(examples, classes)
    v = examples.weight * grid.gaussians(examples.weight)  # [B, L]
    whole = np.where(examples.p > 0, v, 0.0)
    soft = summable(np.concatenate([whole, (examples.seen - examples.p) * v]).T, most)

    def measure(counts: FloatArray) -> FloatArray:
        small = (counts @ powers).reshape(len(counts), len(classes), TERMS)
        total = np.zeros(len(counts))
        for c, which in enumerate(entries):
            sums = small[:, c] @ series + counts[:, examples.rows[which]] @ soft[which]
            total += class_errors(*np.split(sums, 2, axis=1))
        return total

    return measure


def _hard_cwece(examples: _Examples, most: int, classes: range) -> _Measure:
    """sum_c n_c / n sum_b |labels - mass| / n; small probabilities are in the first bin."""
    grid = examples.grid
    mass = summable(examples.small[:, classes.start : classes.stop], most)
    entries, hard = _entries(examples, classes), grid.bin_of(grid.cell_of(examples.weight))
    gap = summable(examples.seen - examples.p, most)

    def measure(counts: FloatArray) -> FloatArray:
        total, small = np.zeros(len(counts)), counts @ mass
        for c, which in enumerate(entries):
            placed = _one_hot(hard[which], grid.bins) * gap[which, None]
            gaps = counts[:, examples.rows[which]] @ placed
            gaps[:, 0] -= small[:, c]
            support = counts @ (examples.labels == classes[c])
            total += support * np.abs(gaps).sum(axis=1)
        return np.asarray(total / counts.sum(axis=1) ** 2)

    return measure


def _entries(examples: _Examples, classes: range) -> list[Array]:
    """The numbers of the entries of each of some classes."""
    order = np.argsort(examples.classes, kind="stable")
    ends = np.searchsorted(examples.classes[order], [*classes, classes.stop])
    return [order[a:b] for a, b in itertools.pairwise(ends.tolist())]


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
RESAMPLED: Final = tuple(_MEASURES)
