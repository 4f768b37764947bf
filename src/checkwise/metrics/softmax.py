"""A block of rows becomes exponentials and row facts; every kernel starts here.

A block holds float64 rows padded with zeros to a multiple of 8. Each row is computed alone and
in the same order wherever it stands, so results do not depend on how examples were batched.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from checkwise.metrics.arithmetic import (
    TINY,
    Array,
    compiled,
    largest,
    total,
    total_squared,
)
from checkwise.metrics.exponentials import exponentials
from checkwise.metrics.lanes import LANES, WIDTH, lanes_equal, lowest_bit, prefetch

AHEAD = 3  # rows between asking memory for a row and using it
_ELEMENTS = 16384  # of one block: 128 KiB, which stays in the second-level cache


class Block(NamedTuple):
    """Scratch for R rows of C classes.

    values: [R, C padded] probabilities times `scale`, zero in the padding.
    scale, inverse: [R] so that p = values / scale, and 1 / scale.
    top: [R] largest probability.
    right: [R] whether the first class that attains it is the label.
    nll: [R] -log p[label].
    shift: [R] largest logit, NaN where probabilities were given.
    exact: [R] the scale in full precision, 0 until someone asks.
    marks, words: [R, bytes] and the same memory as 64-bit words: bit c of a row marks class c.
    weights: [bins padded] of one example.
    """

    values: Array
    scale: Array
    inverse: Array
    top: Array
    right: Array
    nll: Array
    shift: Array
    exact: Array
    marks: Array
    words: Array
    weights: Array


def padded(count: int) -> int:
    """`count` rounded up to whole vectors."""
    return -(-count // WIDTH) * WIDTH


def aligned_zeros(*shape: int) -> Array:
    """Zeros that start at a cache line, so that no vector of a padded row straddles two."""
    room = np.zeros(math.prod(shape) + 7)
    first = -(room.__array_interface__["data"][0] // 8) % 8
    return room[first : first + math.prod(shape)].reshape(shape)


def new_block(classes: int, bins: int = 2) -> Block:
    """Scratch of a size that suits the cache."""
    width = padded(classes)
    rows = max(4, min(64, _ELEMENTS // width))
    marks = np.zeros((rows, -(-width // 64) * 8), dtype=np.uint8)
    return Block(
        values=aligned_zeros(rows, width),
        scale=np.zeros(rows),
        inverse=np.zeros(rows),
        top=np.zeros(rows),
        right=np.zeros(rows, dtype=np.bool_),
        nll=np.zeros(rows),
        shift=np.zeros(rows),
        exact=np.zeros(rows),
        marks=marks,
        words=marks.view(np.int64),
        weights=aligned_zeros(padded(bins)),
    )


@compiled()
def load_logits(z: Array, labels: Array, block: Block) -> int:
    """Fill the block from logits [r, C] with r <= R; the first unusable row, or -1.

    A row cannot be used where a logit is NaN or +inf, where all are -inf, or where the negative
    log-likelihood is infinite. With m = max z and rest = the sum of exp(z - m) without the
    maximum, -log p[y] = (m - z[y]) + log1p(rest), which keeps its relative accuracy near 0.
    """
    rows = labels.size
    for i in range(rows):
        prefetch(z, i + AHEAD)
        m = largest(z[i])
        if not np.isfinite(m):
            return i
        row, label = block.values[i], z[i, labels[i]]
        rest = exponentials(z[i], m, row) - 1.0
        if rest < 1e-4:  # the difference has lost digits that the logarithm needs
            best = first_equal(z[i], m)
            row[best] = 0.0
            rest = total(row)
            row[best] = 1.0
        block.right[i] = label == m and first_equal(z[i], m) == labels[i]
        block.nll[i] = (m - np.float64(label)) + np.log1p(rest)
        block.scale[i] = 1.0 + rest
        block.inverse[i] = 1.0 / block.scale[i]
        block.top[i] = block.inverse[i]
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
        row, label = block.values[i], np.float64(p[i, labels[i]])
        negative = 0
        for c in range(classes):
            v = np.float64(p[i, c])
            negative += int(v < 0.0)
            row[c] = 0.0 if v < TINY else v
        if negative or not abs(total(row) - 1.0) <= tolerance or label <= 0.0:
            return i
        block.top[i] = largest(p[i])
        block.right[i] = label == block.top[i] and first_equal(p[i], block.top[i]) == labels[i]
        block.nll[i] = -np.log(label)
        block.scale[i] = 1.0
        block.inverse[i] = 1.0
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
def exact_probability(p: float, value: float, row: Array, i: int, block: Block) -> float:
    """p of logit `value` in full precision; a probability that was given is exact already."""
    shift = block.shift[i]
    if np.isnan(shift):
        return p
    if block.exact[i] == 0.0:
        for k in range(row.size):
            block.exact[i] += np.exp(np.float64(row[k]) - shift)
    return float(np.exp(value - shift) / block.exact[i])


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
            predicted[start + i] = first_equal(part[i], largest(part[i]))
    return -1
