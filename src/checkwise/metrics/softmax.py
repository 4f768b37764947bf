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
    exponentiate,
    largest,
    total,
    total_squared,
)
from checkwise.metrics.lanes import LANES, lanes_above, lowest_bit

_ELEMENTS = 16384  # of one block: 128 KiB, which stays in the second-level cache


class Block(NamedTuple):
    """Scratch for R rows of C classes.

    values: [R, C padded] probabilities times `scale`, zero in the padding.
    scale: [R] so that p = values / scale; 0 for rows that are not in use.
    top: [R] largest probability.
    predicted: [R] first class that attains it.
    nll: [R] -log p[label].
    """

    values: Array
    scale: Array
    top: Array
    predicted: Array
    nll: Array


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
    )


@compiled()
def load_logits(z: Array, labels: Array, block: Block) -> int:
    """Fill the block from logits [r, C] with r <= R; the first unusable row, or -1.

    A row cannot be used where a logit is NaN or +inf, where all are -inf, or where the negative
    log-likelihood is infinite. With m = max z and rest = the sum of exp(z - m) without the
    maximum, -log p[y] = (m - z[y]) + log1p(rest), which keeps its relative accuracy near 0.
    """
    rows, classes = z.shape
    width = block.values.shape[1]
    for i in range(rows):
        row, m = block.values[i], largest(z[i])
        if not np.isfinite(m):
            return i
        for c in range(classes):
            row[c] = np.float64(z[i, c]) - m
        for c in range(classes, width):
            row[c] = -np.inf
        block.predicted[i] = first_above(row, -5e-324)
        block.nll[i] = m - np.float64(z[i, labels[i]])
    exponentiate(block.values[:rows].reshape(rows * width))
    for i in range(rows):
        row, best = block.values[i], block.predicted[i]
        row[best] = 0.0
        rest = total(row)
        row[best] = 1.0
        block.nll[i] += np.log1p(rest)
        block.scale[i] = 1.0 + rest
        block.top[i] = 1.0 / block.scale[i]
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
        block.top[i] = largest(row)
        block.predicted[i] = first_above(row, np.nextafter(block.top[i], 0.0))
        block.nll[i] = -np.log(label)
        block.scale[i] = 1.0
    return -1


@compiled()
def first_above(row: Array, limit: float) -> int:
    """First position of a padded row whose value exceeds `limit`, or 0."""
    for start in range(0, row.size, LANES):
        mask = lanes_above(row, start, limit)
        if mask:
            return int(start + lowest_bit(mask))
    return 0


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
