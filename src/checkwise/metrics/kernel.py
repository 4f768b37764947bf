"""One compiled pass over predictions that adds to sums from which every metric follows.

Soft class-wise bins need sum_i p exp(-(p - mu)^2 / 2h^2) for every class and bin. For p <= tau
the Gaussian is expanded in p (generating function of the Hermite polynomials He_k):

    exp(-(p - mu)^2 / 2h^2) = exp(-mu^2 / 2h^2) sum_k He_k(mu / h) (p / h)^k / k!

so that power sums of p, one vector operation each, replace the bins. By Cramer's inequality
|He_k(t)| <= 1.0865 sqrt(k!) exp(t^2 / 4), so stopping before k = K errs by at most

    1.0865 exp(-mu^2 / 4h^2) sum_{k >= K} (tau / h)^k / sqrt(k!)

per unit of p: 4e-8 with tau = 0.3 h and K = 9 terms, for every bandwidth. Probabilities above
tau are few, since a row sums to 1, and get their exponentials one by one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from checkwise.metrics.arithmetic import (
    GRID_BITS,
    GRID_SHIFT,
    Array,
    bits_from_float,
    compiled,
    exponentiate,
    total,
)
from checkwise.metrics.lanes import LANES, lanes_above, lowest_bit
from checkwise.metrics.softmax import Block, load_logits, load_probabilities, padded

TERMS = 9
REACH = 0.3  # tau / h
_LIST = 256  # probabilities above tau handled together


class Sums(NamedTuple):
    """Everything the metrics need; all arrays are sums over examples, so merging is adding.

    C classes padded to P, B bins padded to Q. Masses are integers in units of 2**-36.
    """

    brier: Array  # [1] squared errors of the probabilities above tau and of the label
    count: Array  # [C] examples of each class
    correct: Array  # [C] of them predicted rightly
    nll: Array  # [C] their summed negative log-likelihood
    moments: Array  # [K, P] sum of p^k, k = 1..K, over p <= tau
    label_moments: Array  # [C, K] the same over the labels' probabilities
    small_mass: Array  # [P] sum of p <= tau
    soft: Array  # [3, C, Q] sums of v, v p and v [y = c] over p > tau
    top_soft: Array  # [3, Q] sums of w, w u and w a
    hard: Array  # [3, C, B] number, mass and number of labels, over p > tau
    top_hard: Array  # [3, B] number, mass and number correct


class Grid(NamedTuple):
    """Centres of the soft bins [Q] (padding infinitely far), -1/2h^2, tau and the hard bins."""

    centres: Array
    curvature: float
    limit: float
    bins: int


def new_grid(bins: int, bandwidth: float) -> Grid:
    """The grid of `bins` equally spaced centres; tau also stays inside the first hard bin."""
    centres = np.full(padded(bins), 1e9)
    centres[:bins] = np.arange(bins) / (bins - 1)
    limit = min(REACH * bandwidth, 0.999 / bins)
    return Grid(centres, -0.5 / bandwidth**2, limit, bins)


def new_sums(classes: int, bins: int) -> Sums:
    """Zeros."""
    wide, soft = padded(classes), padded(bins)
    return Sums(
        brier=np.zeros(1),
        count=np.zeros(classes, dtype=np.int64),
        correct=np.zeros(classes, dtype=np.int64),
        nll=np.zeros(classes),
        moments=np.zeros((TERMS, wide)),
        label_moments=np.zeros((classes, TERMS)),
        small_mass=np.zeros(wide, dtype=np.int64),
        soft=np.zeros((3, classes, soft)),
        top_soft=np.zeros((3, soft)),
        hard=np.zeros((3, classes, bins), dtype=np.int64),
        top_hard=np.zeros((3, bins), dtype=np.int64),
    )


@compiled()
def accumulate(
    values: Array, labels: Array, tolerance: float, grid: Grid, block: Block, sums: Sums
) -> int:
    """Add rows [n, C] to the sums; the first unusable row, or -1.

    `tolerance` < 0 says that the values are logits. After an unusable row the sums are void.
    """
    size = block.scale.size
    chosen = np.empty(_LIST)
    where = np.empty((2, _LIST), dtype=np.int64)
    weights = np.empty((max(_LIST, size), grid.centres.size))
    for start in range(0, labels.size, size):
        stop = min(start + size, labels.size)
        part, truth = values[start:stop], labels[start:stop]
        if tolerance < 0.0:
            bad = load_logits(part, truth, block)
        else:
            bad = load_probabilities(part, truth, tolerance, block)
        if bad >= 0:
            return int(start + bad)
        rows = stop - start
        for i in range(rows, -(-rows // 4) * 4):
            block.values[i] = 0.0
            block.scale[i] = 1.0
        _add_labels(truth, block, grid, sums)
        _add_tops(truth, block, grid, weights, sums)
        _add_large(truth, block, grid, chosen, where, weights, sums)
        _add_small(rows, block, sums)
    return -1


@compiled()
def _add_labels(labels: Array, block: Block, grid: Grid, sums: Sums) -> None:
    """What concerns each row's true class alone."""
    for i in range(labels.size):
        y = labels[i]
        sums.count[y] += 1
        sums.correct[y] += block.predicted[i] == y
        sums.nll[y] += block.nll[i]
        p = block.values[i, y] / block.scale[i]
        if block.values[i, y] > grid.limit * block.scale[i]:
            sums.brier[0] += (1.0 - p) * (1.0 - p) - p * p
        else:
            sums.brier[0] += 1.0 - 2.0 * p
            sums.hard[2, y, 0] += 1
            power = p
            for k in range(TERMS):
                sums.label_moments[y, k] += power
                power *= p


@compiled()
def _add_tops(labels: Array, block: Block, grid: Grid, weights: Array, sums: Sums) -> None:
    """Top-label bins; the sum of a row's Gaussians is a denominator, clamped like the others."""
    rows = labels.size
    _gaussians(block.top[:rows], grid, weights)
    for i in range(rows):
        u, right = block.top[i], block.predicted[i] == labels[i]
        scale = 1.0 / max(total(weights[i]), 1e-8)
        for b in range(grid.centres.size):
            w = weights[i, b] * scale
            sums.top_soft[0, b] += w
            sums.top_soft[1, b] += w * u
            sums.top_soft[2, b] += w * right
        b = hard_bin(u, grid.bins)
        sums.top_hard[0, b] += 1
        sums.top_hard[1, b] += mass(u)
        sums.top_hard[2, b] += right


@compiled()
def _add_large(
    labels: Array,
    block: Block,
    grid: Grid,
    chosen: Array,
    where: Array,
    weights: Array,
    sums: Sums,
) -> None:
    """Take the probabilities above tau out of the block and add them one by one."""
    filled = 0
    for i in range(labels.size):
        row, scale, y = block.values[i], block.scale[i], labels[i]
        limit = grid.limit * scale
        for start in range(0, row.size, LANES):
            mask = lanes_above(row, start, limit)
            while mask:
                c = start + lowest_bit(mask)
                mask &= mask - 1
                p = row[c] / scale
                row[c] = 0.0
                b = hard_bin(p, grid.bins)
                sums.hard[0, c, b] += 1
                sums.hard[1, c, b] += mass(p)
                sums.hard[2, c, b] += y == c
                sums.brier[0] += p * p
                chosen[filled] = p
                where[0, filled] = c
                where[1, filled] = y == c
                filled += 1
                if filled == _LIST:
                    _add_chosen(chosen, where, grid, weights, sums.soft)
                    filled = 0
    _add_chosen(chosen[:filled], where, grid, weights, sums.soft)


@compiled("contract")
def _add_chosen(chosen: Array, where: Array, grid: Grid, weights: Array, soft: Array) -> None:
    _gaussians(chosen, grid, weights)
    for i in range(chosen.size):
        p, c = chosen[i], where[0, i]
        g, v, vp = weights[i], soft[0, c], soft[1, c]
        for b in range(g.size):
            v[b] += g[b] * p
            vp[b] += g[b] * (p * p)
        if where[1, i]:
            vy = soft[2, c]
            for b in range(g.size):
                vy[b] += g[b] * p


@compiled()
def _gaussians(points: Array, grid: Grid, weights: Array) -> None:
    """weights[i, b] <- exp(-(points[i] - mu_b)^2 / 2h^2)."""
    width = grid.centres.size
    for i in range(points.size):
        row = weights[i]
        for b in range(width):
            gap = points[i] - grid.centres[b]
            row[b] = grid.curvature * gap * gap
    exponentiate(weights[: points.size].reshape(points.size * width))


@compiled("contract")
def _add_small(rows: int, block: Block, sums: Sums) -> None:
    """Power sums and exact mass of what is left; four rows at a time spare memory traffic."""
    offset = 4 * bits_from_float(GRID_SHIFT)
    for i in range(0, rows, 4):
        r0, r1, r2, r3 = block.values[i : i + 4]
        s0, s1 = 1.0 / block.scale[i], 1.0 / block.scale[i + 1]
        s2, s3 = 1.0 / block.scale[i + 2], 1.0 / block.scale[i + 3]
        m1, m2, m3 = sums.moments[0], sums.moments[1], sums.moments[2]
        m4, m5, m6 = sums.moments[3], sums.moments[4], sums.moments[5]
        m7, m8, m9 = sums.moments[6], sums.moments[7], sums.moments[8]
        for c in range(r0.size):
            a, b, d, e = r0[c] * s0, r1[c] * s1, r2[c] * s2, r3[c] * s3
            sums.small_mass[c] += (
                bits_from_float(a + GRID_SHIFT)
                + bits_from_float(b + GRID_SHIFT)
                + bits_from_float(d + GRID_SHIFT)
                + bits_from_float(e + GRID_SHIFT)
                - offset
            )
            a2, b2, d2, e2 = a * a, b * b, d * d, e * e
            m1[c] += (a + b) + (d + e)
            m2[c] += (a2 + b2) + (d2 + e2)
            a3, b3, d3, e3 = a2 * a, b2 * b, d2 * d, e2 * e
            m3[c] += (a3 + b3) + (d3 + e3)
            a4, b4, d4, e4 = a2 * a2, b2 * b2, d2 * d2, e2 * e2
            m4[c] += (a4 + b4) + (d4 + e4)
            m5[c] += (a4 * a + b4 * b) + (d4 * d + e4 * e)
            m6[c] += (a4 * a2 + b4 * b2) + (d4 * d2 + e4 * e2)
            m7[c] += (a4 * a3 + b4 * b3) + (d4 * d3 + e4 * e3)
            m8[c] += (a4 * a4 + b4 * b4) + (d4 * d4 + e4 * e4)
            a4, b4, d4, e4 = a4 * a, b4 * b, d4 * d, e4 * e
            m9[c] += (a4 * (a2 * a2) + b4 * (b2 * b2)) + (d4 * (d2 * d2) + e4 * (e2 * e2))


@compiled()
def hard_bin(p: float, bins: int) -> int:
    """b - 1 where (b - 1)/B < p <= b/B, with 0 in the first bin."""
    b = min(int(p * bins), bins - 1)
    if b > 0 and p <= b / bins:
        return b - 1
    if b < bins - 1 and p > (b + 1) / bins:
        return b + 1
    return b


@compiled()
def mass(p: float) -> int:
    """p rounded to an integer number of units of 2**-36, for sums that have no order."""
    return int(np.rint(p * 2.0**GRID_BITS))
