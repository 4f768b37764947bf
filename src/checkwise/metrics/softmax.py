"""A block of rows becomes exponentials and row facts; every kernel starts here.

A block holds float64 rows padded with zeros to a multiple of 16. Each row is computed alone and
in the same order wherever it stands, so results do not depend on how examples were batched.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from checkwise.metrics.arithmetic import (
    TINY,
    Array,
    compiled,
    exponentials,
    largest,
    total,
    total_squared,
)
from checkwise.metrics.lanes import LANES, lanes_equal, lowest_bit

_ELEMENTS = 16384  # of one block: 128 KiB, which stays in the second-level cache


class Block(NamedTuple):
    """Scratch for R rows of C classes.

    values: [R, C padded] probabilities times `scale`, zero in the padding.
    scale: [R] so that p = values / scale; 0 for rows that are not in use.
    top: [R] largest probability.
    predicted: [R] first class that attains it.
    nll: [R] -log p[label].
    shift: [R] largest logit, NaN where probabilities were given.
    exact: [R] the scale in full precision, 0 until someone asks.
    """

    values: Array
    scale: Array
    top: Array
    predicted: Array
    nll: Array
    shift: Array
    exact: Array


def padded(count: int) -> int:
    """`count` rounded up to whole vectors."""
    return -(-count // LANES) * LANES


def new_block(classes: int) -> Block:
    """Scratch of a size that suits the cache; the number of rows is a multiple of 4."""
    width = padded(classes)
    rows = max(4, min(64, _ELEMENTS // width // 4 * 4))
    return Block(
        values=np.zeros((rows, width)),
        scale=np.zeros(rows),
        top=np.zeros(rows),
        predicted=np.zeros(rows, dtype=np.int64),
        nll=np.zeros(rows),
        shift=np.zeros(rows),
        exact=np.zeros(rows),
    )


@compiled()
def load_logits(z: Array, labels: Array, block: Block) -> int:
    """Fill the block from logits [r, C] with r <= R; the first unusable row, or -1.

    A row cannot be used where a logit is NaN or +inf, where all are -inf, or where the negative
    log-likelihood is infinite. With m = max z and rest = the sum of exp(z - m) without the
    maximum, -log p[y] = (m - z[y]) + log1p(rest), which keeps its relative accuracy near 0.
    """
    rows, classes = z.shape
    for i in range(rows):
        m = largest(z[i])
        if not np.isfinite(m):
            return i
        row, best = block.values[i], first_equal(z[i], m)
        exponentials(z[i], m, row[:classes])
        rest = total(row) - 1.0
        if rest < 1e-4:  # the difference has lost digits that the logarithm needs
            row[best] = 0.0
            rest = total(row)
            row[best] = 1.0
        block.nll[i] = (m - np.float64(z[i, labels[i]])) + np.log1p(rest)
        block.predicted[i] = best
        block.scale[i] = 1.0 + rest
        block.top[i] = 1.0 / block.scale[i]
        block.shift[i] = m
        block.exact[i] = 0.0
        if not np.isfinite(block.nll[i]):
            return i
    return -1


@compiled()
def load_probabilities(p: Array, labels: Array, tolerance: float, block: Block) -> int:
    """Fill the block from probabilities [r, C]; the first row that is none, or -1.

    A row is none where an entry is negative or NaN, where the sum differs from 1 by more than
    `tolerance`, or where the label has probability 0. Rows are taken as given, not renormalised.
    """
    rows, classes = p.shape
    for i in range(rows):
        row, negative = block.values[i], 0
        for c in range(classes):
            v = np.float64(p[i, c])
            negative += v < 0.0
            row[c] = 0.0 if v < TINY else v
        label = np.float64(p[i, labels[i]])
        if negative or not abs(total(row) - 1.0) <= tolerance or label <= 0.0:
            return i
        block.top[i] = largest(p[i])
        block.predicted[i] = first_equal(p[i], block.top[i])
        block.nll[i] = -np.log(label)
        block.scale[i] = 1.0
        block.shift[i] = np.nan
    return -1


@compiled()
def first_equal(row: Array, wanted: float) -> int:
    """First position whose value is `wanted`, or 0."""
    whole = row.size - row.size % LANES
    for start in range(0, whole, LANES):
        mask = lanes_equal(row, start, wanted)
        if mask:
            return int(start + lowest_bit(mask))
    for c in range(whole, row.size):
        if row[c] == wanted:
            return c
    return 0


@compiled()
def exact_probability(p: float, c: int, row: Array, i: int, block: Block) -> float:
    """p of class c in full precision; a probability that was given is exact already."""
    shift = block.shift[i]
    if np.isnan(shift):
        return p
    if block.exact[i] == 0.0:
        for k in range(row.size):
            block.exact[i] += np.exp(np.float64(row[k]) - shift)
    return float(np.exp(np.float64(row[c]) - shift) / block.exact[i])


@compiled()
def measure_rows(
    values: Array,
    labels: Array,
    tolerance: float,
    block: Block,
    out: tuple[Array, Array, Array, Array],
) -> int:
    """NLL, Brier score, confidence and prediction of every row; the first unusable row, or -1."""
    nll, brier, confidence, predicted = out
    size = block.scale.size
    for start in range(0, labels.size, size):
        stop = min(start + size, labels.size)
        part, truth = values[start:stop], labels[start:stop]
        if tolerance < 0.0:
            bad = load_logits(part, truth, block)
        else:
            bad = load_probabilities(part, truth, tolerance, block)
        if bad >= 0:
            return int(start + bad)
        for i in range(stop - start):
            row = block.values[i]
            p = row[truth[i]] / block.scale[i]
            row[truth[i]] = 0.0
            others = total_squared(row) / (block.scale[i] * block.scale[i])
            nll[start + i] = block.nll[i]
            brier[start + i] = others + (1.0 - p) * (1.0 - p)
            confidence[start + i] = block.top[i]
            predicted[start + i] = block.predicted[i]
    return -1
