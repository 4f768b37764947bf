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

from typing import Any, NamedTuple

import numpy as np

from checkwise.metrics.compiling import entry, inner
from checkwise.metrics.smooth import Grid
from checkwise.metrics.sums import UNIT, Sums

Array = np.ndarray[Any, np.dtype[Any]]

TINY = 1e-30  # smaller probabilities count as 0: denormal powers of them are slow
LOWEST = -69.0  # its logarithm
LOG2_E = 1.4426950408889634
LN2 = 0.6931471805599453
ROUND = 1.5 * 2.0**52 + 1023  # adding it leaves k + 1023, the exponent of 2**k, in the low bits
UNIT_SHIFT = 1.5 * 2.0**52 * UNIT  # adding it leaves the number of units in the low bits
UNIT_BITS = int(np.float64(UNIT_SHIFT).view(np.int64))


class Block(NamedTuple):
    """Scratch for R rows: p = values * inverse."""

    values: Array  # [R, C]
    inverse: Array  # [R]
    top: Array  # [R] largest probability
    correct: Array  # [R] whether the first class that attains it is the label
    nll: Array  # [R] -log p[label]
    large: Array  # [C] columns of large probabilities of a row
    column: Array  # [R] probabilities of one class


def new_block(classes: int) -> Block:
    """Scratch of a size that suits the second-level cache."""
    rows = max(32, min(64, 65536 // classes))
    return Block(
        values=np.zeros((rows, classes)),
        inverse=np.zeros(rows),
        top=np.zeros(rows),
        correct=np.zeros(rows, dtype=np.bool_),
        nll=np.zeros(rows),
        large=np.zeros(classes, dtype=np.int64),
        column=np.zeros(rows),
    )


@inner("reassoc")
def plus(a: float, b: float) -> float:
    """a + b, as part of a sum that may be taken in any order."""
    return a + b


@inner("contract")
def exponential(x: float) -> float:
    """exp(x) for x <= 0: x = k ln 2 + r, and a Taylor polynomial in r of degree 11.

    Exactly 1 at 0, NaN at NaN, and never below 1e-30.
    """
    x = LOWEST if x < LOWEST else x
    shifted = x * LOG2_E + ROUND
    r = x - (shifted - ROUND) * LN2
    r2 = r * r
    r4 = r2 * r2
    s = (1 / 40320 + r * (1 / 362880)) + r2 * (1 / 3628800 + r * (1 / 39916800))
    s = (1 / 24 + r * (1 / 120)) + r2 * (1 / 720 + r * (1 / 5040)) + r4 * s
    s = (1 + r) + r2 * (1 / 2 + r * (1 / 6)) + r4 * s
    # 2**k is multiplied in, not added to the exponent bits: NaN stays NaN.
    return float(s * np.int64(np.float64(shifted).view(np.int64) << 52).view(np.float64))


@inner()
def units(p: float) -> int:
    """p rounded to an integer number of units."""
    return int(np.float64(p + UNIT_SHIFT).view(np.int64) - UNIT_BITS)


@inner()
def hard_bin(p: float, bins: int) -> int:
    """The b with b / B < p <= (b + 1) / B; 0 is in the first bin."""
    b = min(int(p * bins), bins - 1)
    if b > 0 and p <= b / bins:
        return b - 1
    if b < bins - 1 and p > (b + 1) / bins:
        return b + 1
    return b


@inner()
def row_sum(values: Array) -> float:
    """The sum of a row, or of a part of it."""
    total = 0.0
    for value in values:
        total = plus(total, value)
    return total


@inner()
def load_logits(z: Array, labels: Array, start: int, rows: int, block: Block) -> int:
    """Fill the block from rows of logits; the first that cannot be used, or -1.

    A row cannot be used where a logit is NaN or +inf, where all are -inf, or where the negative
    log-likelihood is infinite. With m = max z and rest = the sum of exp(z - m) without one
    maximum, -log p[y] = (m - z[y]) + log1p(rest), which keeps its relative accuracy near 0 if
    the maximum that is left out is y.
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
        whole, earlier = 0.0, 0
        for c in range(classes):
            e = exponential(np.float64(z[i, c]) - m)
            values[r, c] = e
            whole = plus(whole, e)
        rest = whole - 1.0
        if z[i, label] == m:
            rest = row_sum(values[r, :label]) + row_sum(values[r, label + 1 :])
            for c in range(label):
                earlier += int(z[i, c] == m)
        block.correct[r] = z[i, label] == m and earlier == 0
        block.nll[r] = (np.float64(m) - z[i, label]) + np.log1p(rest)
        block.inverse[r] = 1.0 / (1.0 + rest)
        block.top[r] = block.inverse[r]
        if not np.isfinite(block.nll[r]):
            return r
    return -1


@inner()
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


@inner()
def load(
    values: Array, labels: Array, start: int, rows: int, tolerance: float, block: Block
) -> int:
    """Fill the block; `tolerance` < 0 says that the values are logits."""
    if tolerance < 0.0:
        return load_logits(values, labels, start, rows, block)
    return load_probabilities(values, labels, start, rows, tolerance, block)


@inner("contract")
def bell(table: Array, node: int, x: float, b: int) -> float:
    """The Gaussian of soft bin b at a distance x from a node."""
    low = table[node, 0, b] + x * (table[node, 1, b] + x * table[node, 2, b])
    high = table[node, 3, b] + x * (table[node, 4, b] + x * table[node, 5, b])
    return float(low + x * x * x * high)


@inner()
def add_tops(rows: int, block: Block, grid: Grid, sums: Sums) -> None:
    """Top-label bins; the sum of a row's Gaussians is a denominator, clamped like the others."""
    t, soft, bins = grid.table, sums.top_soft, sums.top_mass.size
    w = np.empty(t.shape[2])
    for r in range(rows):
        u, k = block.top[r], int(block.correct[r])
        node = int(u * grid.density + 0.5)
        x = u - node / grid.density
        whole = 0.0
        for b in range(w.size):
            w[b] = bell(t, node, x, b)
            whole = plus(whole, w[b])
        scale = 1.0 / max(whole, grid.clamp)
        for b in range(w.size):
            soft[k, 0, b] += scale * w[b]
            soft[k, 1, b] += scale * u * w[b]
        b = hard_bin(u, bins)
        sums.top_mass[b] += units(u)
        sums.top_correct[b] += k


@inner()
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


@inner()
def add_large(rows: int, block: Block, grid: Grid, sums: Sums) -> None:
    """The probabilities above tau, one by one; they leave zeros in the block.

    They are listed first, without a branch: no processor could predict where they are.
    """
    values, large = block.values, block.large
    t, soft, bins, brier = grid.table, sums.soft, sums.top_mass.size, 0.0
    classes = values.shape[1]
    for r in range(rows):
        inverse = block.inverse[r]
        bound, listed = grid.limit / inverse, 0
        for c in range(classes):
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


@inner("reassoc", "contract")
def add_small(rows: int, block: Block, centre: float, sums: Sums) -> None:
    """What is left in the block, column by column: sums of p (p - q)^k, and of p in units."""
    values, inverse, column = block.values, block.inverse, block.column
    for c in range(values.shape[1]):
        for r in range(rows):
            column[r] = values[r, c] * inverse[r]
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = s8 = s9 = 0.0
        mass = 0
        for r in range(rows):
            p = column[r]
            mass += units(p)
            x = p - centre
            x2 = x * x
            x4 = x2 * x2
            p1, p2 = p * x, p * x2
            p3, p4 = p1 * x2, p * x4
            s0, s1, s2, s3, s4 = s0 + p, s1 + p1, s2 + p2, s3 + p3, s4 + p4
            s5, s6, s7, s8 = s5 + p1 * x4, s6 + p2 * x4, s7 + p3 * x4, s8 + p4 * x4
            s9 += p1 * (x4 * x4)
        sums.small_mass[c] += mass
        for k, s in enumerate((s0, s1, s2, s3, s4, s5, s6, s7, s8, s9)):
            sums.powers[c, k] += s


@entry
def accumulate(
    values: Array,
    labels: Array,
    tolerance: float,
    grid: Grid,
    block: Block,
    sums: Sums,
    out: tuple[Array, Array],
) -> int:
    """Add rows [n, C] to the sums; the first unusable row, or -1.

    A block of rows is looked at before it is added; after an unusable row further down the sums
    are void. ``out`` takes correctness and NLL of every row, unless it is empty.
    """
    correct, nll = out
    size = block.nll.size
    for start in range(0, labels.size, size):
        rows = min(size, labels.size - start)
        bad = load(values, labels, start, rows, tolerance, block)
        if bad >= 0:
            return start + bad
        if correct.size:
            for r in range(rows):
                correct[start + r], nll[start + r] = block.correct[r], block.nll[r]
        add_tops(rows, block, grid, sums)
        add_labels(labels, start, rows, block, grid, sums)
        add_large(rows, block, grid, sums)
        add_small(rows, block, grid.centre, sums)
    return -1


@entry
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
