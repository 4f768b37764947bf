"""One compiled pass that leaves, per example, what the sums of a resample are made of.

The sums behind every metric are linear in the examples, so those of a resample are products of its
counts with the numbers found here. They are the same numbers that `kernel` adds up.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from checkwise.metrics import kernel
from checkwise.metrics.compiling import entry, inner
from checkwise.metrics.inputs import Predictions
from checkwise.metrics.kernel import Block
from checkwise.metrics.smooth import TERMS, Grid, new_grid, padded

Array = np.ndarray[Any, np.dtype[Any]]


class Sufficient(NamedTuple):
    """What each of n examples adds to the sums of some classes, B bins padded to Q, K powers.

    An entry is one probability that is treated by itself: one above tau, or that of the label.
    Entries are sorted by class; those of the c-th class are ``starts[c]`` to ``starts[c + 1]``.
    """

    labels: Array  # [n]
    correct: Array  # [n] 0.0 or 1.0
    nll: Array  # [n]
    brier: Array  # [n]
    top: Array  # [n, 2, Q] weight of each soft bin, and weight times (correct - confidence)
    top_bin: Array  # [n] hard bin of the confidence
    top_gap: Array  # [n] correct - confidence
    powers: Array  # [n, classes, K] p (p - q)^k where p <= tau, else 0
    starts: Array  # [classes + 1]
    examples: Array  # [L] the example of each entry
    soft: Array  # [L, 2, Q] v, and v ([y = c] - p), without what `powers` gives
    hard: Array  # [L] hard bin
    hard_gap: Array  # [L] [y = c] - p, without what `powers` gives


def sufficient(
    predictions: Predictions, classes: range, *, bins: int, bandwidth: float
) -> Sufficient:
    """Measure every example; a row that `evaluate` would refuse is refused."""
    grid = new_grid(bins, bandwidth)
    values = np.concatenate([rows for _, rows, _ in predictions.blocks()])
    values.flags.writeable = False
    block = kernel.new_block(predictions.classes)
    n, first = len(values), classes.start
    size = np.zeros(len(classes) + 1, dtype=np.int64)
    bad = _count(values, predictions.labels, predictions.tolerance, first, grid, block, size)
    if bad >= 0:
        predictions.refuse(bad, values[bad], int(predictions.labels[bad]))
    starts = np.cumsum(size)
    out = Sufficient(
        labels=predictions.labels,
        correct=np.empty(n),
        nll=np.empty(n),
        brier=np.empty(n),
        top=np.empty((n, 2, padded(bins))),
        top_bin=np.empty(n, dtype=np.int64),
        top_gap=np.empty(n),
        powers=np.zeros((n, len(classes), TERMS)),
        starts=starts,
        examples=np.empty(starts[-1], dtype=np.int64),
        soft=np.zeros((starts[-1], 2, padded(bins))),
        hard=np.empty(starts[-1], dtype=np.int64),
        hard_gap=np.empty(starts[-1]),
    )
    tolerance, ends = predictions.tolerance, starts[:-1].copy()
    _fill(values, predictions.labels, tolerance, first, bins, grid, block, out, ends)
    return out


@entry
def _count(
    values: Array,
    labels: Array,
    tolerance: float,
    first: int,
    grid: Grid,
    block: Block,
    size: Array,
) -> int:
    """Entries of the c-th class in ``size[c + 1]``; the first unusable row, or -1."""
    rows_at_once = block.nll.size
    for start in range(0, labels.size, rows_at_once):
        rows = min(rows_at_once, labels.size - start)
        bad = kernel.load(values, labels, start, rows, tolerance, block)
        if bad >= 0:
            return start + bad
        for r in range(rows):
            bound = grid.limit / block.inverse[r]
            for c in range(size.size - 1):
                if block.values[r, first + c] > bound or labels[start + r] == first + c:
                    size[c + 1] += 1
    return -1


@inner()
def _fill_top(i: int, u: float, a: float, bins: int, grid: Grid, out: Sufficient) -> None:
    """The soft and hard bins of the largest probability, as `kernel.add_tops` has them."""
    t = grid.table
    node = int(u * grid.density + 0.5)
    x = u - node / grid.density
    whole = 0.0
    for b in range(t.shape[2]):
        w = kernel.bell(t, node, x, b)
        out.top[i, 0, b] = w
        whole = kernel.plus(whole, w)
    scale = 1.0 / max(whole, grid.clamp)
    for b in range(t.shape[2]):
        out.top[i, 0, b] *= scale
        out.top[i, 1, b] = out.top[i, 0, b] * (a - u)
    out.top_bin[i] = kernel.hard_bin(u, bins)
    out.top_gap[i] = a - u


@inner()
def _fill_entry(
    at: int, i: int, p: float, large: bool, is_label: bool, bins: int, grid: Grid, out: Sufficient
) -> None:
    """One probability by itself: a large one, or that of the label."""
    t = grid.table
    node = int(p * grid.density + 0.5)
    x = p - node / grid.density
    gap = (1.0 if is_label else 0.0) - (p if large else 0.0)
    for b in range(t.shape[2]):
        v = p * kernel.bell(t, node, x, b)
        out.soft[at, 0, b] = v if large else 0.0
        out.soft[at, 1, b] = gap * v
    out.examples[at] = i
    out.hard[at] = kernel.hard_bin(p, bins)
    out.hard_gap[at] = gap


@entry
def _fill(
    values: Array,
    labels: Array,
    tolerance: float,
    first: int,
    bins: int,
    grid: Grid,
    block: Block,
    out: Sufficient,
    next_of: Array,
) -> None:
    rows_at_once, terms = block.nll.size, out.powers.shape[2]
    for start in range(0, labels.size, rows_at_once):
        rows = min(rows_at_once, labels.size - start)
        kernel.load(values, labels, start, rows, tolerance, block)
        for r in range(rows):
            i, inverse, label = start + r, block.inverse[r], labels[start + r]
            out.correct[i] = 1.0 if block.correct[r] else 0.0
            out.nll[i] = block.nll[r]
            _fill_top(i, block.top[r], out.correct[i], bins, grid, out)
            bound, squares = grid.limit / inverse, 0.0
            for c in range(values.shape[1]):
                squares += (block.values[r, c] * inverse) ** 2
            out.brier[i] = squares + 1.0 - 2.0 * block.values[r, label] * inverse
            for c in range(next_of.size):
                value, is_label = block.values[r, first + c], first + c == label
                p, large = value * inverse, value > bound
                if not large:
                    power = p
                    for k in range(terms):
                        out.powers[i, c, k] = power
                        power *= p - grid.centre
                if large or is_label:
                    _fill_entry(next_of[c], i, p, large, is_label, bins, grid, out)
                    next_of[c] += 1
