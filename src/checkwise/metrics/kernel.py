"""One compiled pass over predictions that adds to sums from which every metric follows.

A block of rows is exponentiated and checked, then added: what is single in a row (the top label,
the true class, the few probabilities above tau) row by row, all others as power sums, column by
column (see `smooth`). Each row is computed alone and in the same order wherever it stands, so
results do not depend on how examples were batched.

Everything here is plain numba, one loop per idea, so that the compiler can vectorise it. Functions
differ in the liberties it may take with floating point: only plain sums may be reordered, since in
an exponential that would cancel the digits that matter for huge logits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np

from checkwise.metrics.smooth import Grid, padded, power_sums

Function = TypeVar("Function", bound=Callable[..., Any])
Array = np.ndarray[Any, np.dtype[Any]]

TINY = 1e-30  # smaller probabilities count as 0: denormal powers of them are slow
LOWEST = -69.0  # its logarithm
LOG2_E = 1.4426950408889634
LN2 = 0.6931471805599453
ROUND = 1.5 * 2.0**52 + 1023  # adding it leaves k + 1023, the exponent of 2**k, in the low bits
UNIT = 2.0**-36  # of masses, which are integers so that their sums have no order
UNIT_SHIFT = 1.5 * 2.0**52 * UNIT  # adding it leaves the number of units in the low bits
UNIT_BITS = int(np.float64(UNIT_SHIFT).view(np.int64))
CHUNK = 16  # columns looked at together


class Sums(NamedTuple):
    """Everything the metrics need; all arrays are sums over examples, so merging is adding.

    C classes, B bins padded to Q, K power sums. Masses are integers in units of 2**-36.
    """

    brier: Array  # [1] squared errors, but for the squares of p <= tau
    support: Array  # [C] examples of each class
    correct: Array  # [C] of them correctly predicted
    nll: Array  # [C] their summed negative log-likelihood
    powers: Array  # [C, K] sums of p^k, k = 1, 2, ..., over p <= tau
    small_mass: Array  # [C] sum of p <= tau
    soft: Array  # [C, 2, Q] sums of v and of v p over p > tau
    soft_label: Array  # [C, Q] sum of v [y = c]
    top_soft: Array  # [2, 2, Q] sums of w and of w u, over wrong and over correct predictions
    mass: Array  # [C, B] sum of p > tau in each hard bin
    labels: Array  # [C, B] number of labels
    top_mass: Array  # [B] sum of u in each hard bin
    top_correct: Array  # [B] number correctly predicted


class Block(NamedTuple):
    """Scratch for R rows: p = values * inverse."""

    values: Array  # [R, C]
    inverse: Array  # [R]
    top: Array  # [R] largest probability
    correct: Array  # [R] whether the first class that attains it is the label
    nll: Array  # [R] -log p[label]
    chunks: Array  # [C] first columns of chunks that hold large probabilities of a row
    large: Array  # [C] columns of large probabilities of a row
    column: Array  # [R] probabilities of one class


def new_sums(classes: int, bins: int) -> Sums:
    """Zeros."""
    return Sums(
        brier=np.zeros(1),
        support=np.zeros(classes, dtype=np.int64),
        correct=np.zeros(classes, dtype=np.int64),
        nll=np.zeros(classes),
        powers=np.zeros((classes, power_sums(classes))),
        small_mass=np.zeros(classes, dtype=np.int64),
        soft=np.zeros((classes, 2, padded(bins))),
        soft_label=np.zeros((classes, padded(bins))),
        top_soft=np.zeros((2, 2, padded(bins))),
        mass=np.zeros((classes, bins), dtype=np.int64),
        labels=np.zeros((classes, bins), dtype=np.int64),
        top_mass=np.zeros(bins, dtype=np.int64),
        top_correct=np.zeros(bins, dtype=np.int64),
    )


def new_block(classes: int) -> Block:
    """Scratch of a size that suits the second-level cache."""
    rows = max(32, min(64, 65536 // classes))
    return Block(
        values=np.zeros((rows, classes)),
        inverse=np.zeros(rows),
        top=np.zeros(rows),
        correct=np.zeros(rows, dtype=np.bool_),
        nll=np.zeros(rows),
        chunks=np.zeros(classes, dtype=np.int64),
        large=np.zeros(classes, dtype=np.int64),
        column=np.zeros(rows),
    )


def _inner(*liberties: str) -> Callable[[Function], Function]:
    """Compiled into its callers, with the given floating-point liberties."""
    return cast(
        Callable[[Function], Function], numba.njit(error_model="numpy", fastmath=set(liberties))
    )


def _entry(function: Function) -> Function:
    """Compiled, kept on disk for other processes, and run without Python's lock."""
    try:
        compiled = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # no folder to keep it in: every process compiles
        return cast(Function, numba.njit(nogil=True, error_model="numpy")(function))

    @wraps(function)
    def run(*arguments: Any) -> Any:
        try:
            return compiled(*arguments)
        except OSError:  # compiled, but the disk is full; nothing has run yet
            return compiled(*arguments)

    return cast(Function, run)


@_inner("reassoc")
def plus(a: float, b: float) -> float:
    """a + b, as part of a sum that may be taken in any order."""
    return a + b


@_inner("contract")
def exponential(x: float) -> float:
    """exp(x) for x <= 0: x = k ln 2 + r, and a Taylor polynomial in r of degree 13.

    Exactly 1 at 0, NaN at NaN, and never below 1e-30.
    """
    x = LOWEST if x < LOWEST else x
    shifted = x * LOG2_E + ROUND
    r = x - (shifted - ROUND) * LN2
    r2 = r * r
    r4 = r2 * r2
    s = (1 / 40320 + r * (1 / 362880)) + r2 * (1 / 3628800 + r * (1 / 39916800))
    s += r4 * (1 / 479001600 + r * (1 / 6227020800))
    s = (1 / 24 + r * (1 / 120)) + r2 * (1 / 720 + r * (1 / 5040)) + r4 * s
    s = (1 + r) + r2 * (1 / 2 + r * (1 / 6)) + r4 * s
    # 2**k is multiplied in, not added to the exponent bits: NaN stays NaN.
    return float(s * np.int64(np.float64(shifted).view(np.int64) << 52).view(np.float64))


@_inner()
def units(p: float) -> int:
    """p rounded to an integer number of units."""
    return int(np.float64(p + UNIT_SHIFT).view(np.int64) - UNIT_BITS)


@_inner()
def hard_bin(p: float, bins: int) -> int:
    """The b with b / B < p <= (b + 1) / B; 0 is in the first bin."""
    b = min(int(p * bins), bins - 1)
    if b > 0 and p <= b / bins:
        return b - 1
    if b < bins - 1 and p > (b + 1) / bins:
        return b + 1
    return b


@_inner()
def load_logits(z: Array, labels: Array, start: int, rows: int, block: Block) -> int:
    """Fill the block from rows of logits; the first that cannot be used, or -1.

    A row cannot be used where a logit is NaN or +inf, where all are -inf, or where the negative
    log-likelihood is infinite. With m = max z and rest = the sum of exp(z - m) without one
    maximum, -log p[y] = (m - z[y]) + log1p(rest), which keeps its relative accuracy near 0.
    """
    values, classes = block.values, z.shape[1]
    for r in range(rows):
        i, label = start + r, labels[start + r]
        m = z[i, 0]
        for c in range(classes):
            v = z[i, c]
            m = v if v > m else m  # overlooks NaN, which the sum will show
        if not np.isfinite(m):
            return r
        rest, maxima, earlier = 0.0, 0, 0
        for c in range(classes):
            e = exponential(np.float64(z[i, c]) - m)
            values[r, c] = e
            maxima += int(e == 1.0)
            rest = plus(rest, 0.0 if e == 1.0 else e)
        rest += maxima - 1.0
        if z[i, label] == m:
            for c in range(label):
                earlier += int(z[i, c] == m)
        block.correct[r] = z[i, label] == m and earlier == 0
        block.nll[r] = (np.float64(m) - z[i, label]) + np.log1p(rest)
        block.inverse[r] = 1.0 / (1.0 + rest)
        block.top[r] = block.inverse[r]
        if not np.isfinite(block.nll[r]):
            return r
    return -1


@_inner()
def load_probabilities(
    p: Array, labels: Array, start: int, rows: int, tolerance: float, block: Block
) -> int:
    """Fill the block from rows of probabilities; the first that is no distribution, or -1.

    A row is none where an entry is negative or NaN, where the sum differs from 1 by more than
    `tolerance`, or where the label has probability 0. Rows are taken as given, not renormalised.
    """
    values, classes = block.values, p.shape[1]
    for r in range(rows):
        i, label = start + r, labels[start + r]
        m, whole, negative = p[i, 0], 0.0, 0
        for c in range(classes):
            v = p[i, c]
            m = v if v > m else m
        for c in range(classes):
            v = np.float64(p[i, c])
            negative += int(v < 0.0)
            v = 0.0 if v < TINY else v
            values[r, c] = v
            whole = plus(whole, v)
        if negative or not abs(whole - 1.0) <= tolerance or p[i, label] <= 0.0:
            return r
        earlier = 0
        for c in range(label):
            earlier += int(p[i, c] == m)
        block.correct[r] = p[i, label] == m and earlier == 0
        block.nll[r] = -np.log(np.float64(p[i, label]))
        block.inverse[r] = 1.0
        block.top[r] = m
    return -1


@_inner()
def load(
    values: Array, labels: Array, start: int, rows: int, tolerance: float, block: Block
) -> int:
    """Fill the block; `tolerance` < 0 says that the values are logits."""
    if tolerance < 0.0:
        return load_logits(values, labels, start, rows, block)
    return load_probabilities(values, labels, start, rows, tolerance, block)


@_inner("contract")
def bell(table: Array, node: int, x: float, b: int) -> float:
    """The Gaussian of soft bin b at a distance x from a node."""
    low = table[node, 0, b] + x * (table[node, 1, b] + x * table[node, 2, b])
    high = table[node, 3, b] + x * (table[node, 4, b] + x * table[node, 5, b])
    return float(low + x * x * x * high)


@_inner()
def add_tops(rows: int, block: Block, grid: Grid, sums: Sums) -> None:
    """Top-label bins; the sum of a row's Gaussians is a denominator, clamped like the others."""
    t, soft, bins = grid.table, sums.top_soft, sums.top_mass.size
    for r in range(rows):
        u, k = block.top[r], int(block.correct[r])
        node = int(u * grid.density + 0.5)
        x = u - node / grid.density
        scale = 0.0
        for b in range(t.shape[2]):
            scale = plus(scale, bell(t, node, x, b))
        scale = 1.0 / max(scale, grid.clamp)
        for b in range(t.shape[2]):
            w = scale * bell(t, node, x, b)
            soft[k, 0, b] += w
            soft[k, 1, b] += u * w
        b = hard_bin(u, bins)
        sums.top_mass[b] += units(u)
        sums.top_correct[b] += k


@_inner()
def add_labels(labels: Array, start: int, rows: int, block: Block, grid: Grid, sums: Sums) -> None:
    """True classes: (1 - p)^2 - p^2 completes the Brier score, whose p^2 are summed elsewhere."""
    t, soft, bins, brier = grid.table, sums.soft_label, sums.top_mass.size, 0.0
    for r in range(rows):
        y = labels[start + r]
        p = block.values[r, y] * block.inverse[r]
        node = int(p * grid.density + 0.5)
        x = p - node / grid.density
        for b in range(t.shape[2]):
            soft[y, b] += p * bell(t, node, x, b)
        brier += 1.0 - 2.0 * p
        sums.labels[y, hard_bin(p, bins)] += 1
        sums.support[y] += 1
        sums.correct[y] += int(block.correct[r])
        sums.nll[y] += block.nll[r]
    sums.brier[0] += brier


@_inner()
def add_large(rows: int, block: Block, grid: Grid, sums: Sums) -> None:
    """The probabilities above tau, one by one; they leave zeros in the block.

    They are listed first, without a branch: no processor could predict where they are.
    """
    values, chunks, large = block.values, block.chunks, block.large
    t, soft, bins, brier = grid.table, sums.soft, sums.top_mass.size, 0.0
    classes = values.shape[1]
    for r in range(rows):
        inverse = block.inverse[r]
        bound, hits, listed = grid.limit / inverse, 0, 0
        for start in range(0, classes, CHUNK):
            above = 0
            for c in range(start, min(start + CHUNK, classes)):
                above += int(values[r, c] > bound)
            chunks[hits] = start
            hits += int(above > 0)
        for start in chunks[:hits]:
            for c in range(start, min(start + CHUNK, classes)):
                large[listed] = c
                listed += int(values[r, c] > bound)
        for c in large[:listed]:
            p = values[r, c] * inverse
            values[r, c] = 0.0
            node = int(p * grid.density + 0.5)
            x = p - node / grid.density
            for b in range(t.shape[2]):
                w = p * bell(t, node, x, b)
                soft[c, 0, b] += w
                soft[c, 1, b] += p * w
            brier += p * p
            sums.mass[c, hard_bin(p, bins)] += units(p)
    sums.brier[0] += brier


@_inner("reassoc", "contract")
def add_small(rows: int, block: Block, sums: Sums) -> None:
    """What is left in the block, column by column: sums of p^k, and of p in units."""
    values, inverse, p, powers = block.values, block.inverse, block.column, sums.powers
    for c in range(values.shape[1]):
        for r in range(rows):
            p[r] = values[r, c] * inverse[r]
        s1 = s2 = s3 = s4 = s5 = s6 = s7 = s8 = s9 = 0.0
        mass = 0
        for r in range(rows):
            p1 = p[r]
            mass += units(p1)
            p2 = p1 * p1
            p3, p4 = p2 * p1, p2 * p2
            p5 = p2 * p3
            s1, s2, s3, s4, s5 = s1 + p1, s2 + p2, s3 + p3, s4 + p4, s5 + p5
            s6, s7, s8, s9 = s6 + p3 * p3, s7 + p3 * p4, s8 + p4 * p4, s9 + p4 * p5
        sums.small_mass[c] += mass
        for k, s in enumerate((s1, s2, s3, s4, s5, s6, s7, s8, s9)):
            powers[c, k] += s
        if powers.shape[1] == 9:
            continue
        s1 = s2 = s3 = s4 = 0.0
        for r in range(rows):
            p1 = p[r]
            p2 = p1 * p1
            p5 = p2 * p2 * p1
            p10 = p5 * p5
            s1, s2, s3, s4 = s1 + p10, s2 + p10 * p1, s3 + p10 * p2, s4 + p10 * (p1 * p2)
        for k, s in enumerate((s1, s2, s3, s4)):
            powers[c, 9 + k] += s


@_entry
def accumulate(
    values: Array, labels: Array, tolerance: float, grid: Grid, block: Block, sums: Sums
) -> int:
    """Add rows [n, C] to the sums; the first unusable row, or -1.

    A block of rows is looked at before it is added; after an unusable row further down the sums
    are void.
    """
    size = block.nll.size
    for start in range(0, labels.size, size):
        rows = min(size, labels.size - start)
        bad = load(values, labels, start, rows, tolerance, block)
        if bad >= 0:
            return start + bad
        add_tops(rows, block, grid, sums)
        add_labels(labels, start, rows, block, grid, sums)
        add_large(rows, block, grid, sums)
        add_small(rows, block, sums)
    return -1


@_entry
def measure_rows(
    values: Array,
    labels: Array,
    tolerance: float,
    block: Block,
    out: tuple[Array, Array, Array, Array],
) -> int:
    """NLL, Brier score, confidence and prediction of every row; the first unusable row, or -1."""
    nll, brier, confidence, predicted = out
    size = block.nll.size
    for start in range(0, labels.size, size):
        rows = min(size, labels.size - start)
        bad = load(values, labels, start, rows, tolerance, block)
        if bad >= 0:
            return start + bad
        for r in range(rows):
            i, label, squares = start + r, labels[start + r], 0.0
            p = block.values[r, label] * block.inverse[r]
            block.values[r, label] = 0.0
            for c in range(values.shape[1]):
                squares = plus(squares, block.values[r, c] * block.values[r, c])
            squares *= block.inverse[r] * block.inverse[r]
            nll[i] = block.nll[r]
            brier[i] = squares + (1.0 - p) * (1.0 - p)
            confidence[i] = block.top[r]
            predicted[i] = np.argmax(values[i])
    return -1
