"""One compiled pass over predictions that adds to sums from which every metric follows.

Soft class-wise bins need sum_i p exp(-(p - mu)^2 / 2h^2) for every class and bin. Around a node q
the Gaussian is a power series (the generating function of the Hermite polynomials He_k):

    exp(-(q + x - mu)^2 / 2h^2) = exp(-t^2 / 2) sum_k He_k(t) (x / h)^k / k!,  t = (mu - q) / h

By Cramer's inequality |He_k(t)| <= 1.0865 sqrt(k!) exp(t^2 / 4), so stopping before k = K errs by
at most 1.0865 exp(-t^2 / 4) sum_{k >= K} |x / h|^k / sqrt(k!), whatever the bandwidth:

    p <= tau = 0.3 h, node 0, K = 9:          4e-8 per unit of p; power sums replace the bins
    or, for few classes, 0.6 h and K = 13:    3e-8, as more of the probabilities are large
    p > tau, a node within 0.11 h, K = 6:     8e-8 per unit of p; few, since a row sums to 1

Between centres far apart all Gaussians are small and their ratios matter; the relative error,
about |t x / h|^K / K!, is kept below 1e-8 by closer nodes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from checkwise.metrics.arithmetic import Array, compiled
from checkwise.metrics.lanes import WIDTH, bits_from_float, lowest_bit
from checkwise.metrics.softmax import (
    Block,
    aligned_zeros,
    exact_probability,
    load_logits,
    load_probabilities,
    padded,
)
from checkwise.metrics.sums import (
    GRID_BITS,
    GRID_SHIFT,
    ORDER,
    add_bell,
    add_scaled,
    bell,
    power_sums_9,
    power_sums_13,
)

REACH = {9: 0.3, 13: 0.6}  # number of power sums: tau / h


class Sums(NamedTuple):
    """Everything the metrics need; all arrays are sums over examples, so merging is adding.

    C classes padded to P, B bins padded to Q. Masses are integers in units of 2**-36.
    """

    brier: Array  # [1] squared errors, but for the squares of p <= tau
    support: Array  # [C] examples of each class
    correct: Array  # [C] of them predicted rightly
    nll: Array  # [C] their summed negative log-likelihood
    moments: Array  # [K, P] sum of p^k, k = 1, 2, ..., over p <= tau
    small_mass: Array  # [P] sum of p <= tau
    soft: Array  # [C, Q/8, 2, 8] sums of v and v p over p > tau, eight bins together
    soft_label: Array  # [C, Q] sum of v [y = c]
    top_soft: Array  # [4, Q] sums of w and w u over wrong, then right predictions
    mass: Array  # [C, B] sum of p > tau in each hard bin
    labels: Array  # [C, B] number of labels
    top_mass: Array  # [B] sum of u in each hard bin
    top_right: Array  # [B] number predicted rightly


class Grid(NamedTuple):
    """Where the bins are."""

    table: Array  # [nodes, Q/8, ORDER, 8] local polynomials of the soft bins
    density: float  # nodes per unit, a power of 2, so that nodes are exact
    limit: float  # tau
    edges: Array  # [B + 1] b/B of the hard bins


def gaussian_series(nodes: Array, bins: int, bandwidth: float, terms: int) -> Array:
    """Coefficients [nodes, terms, B]: exp(-(q + x - mu)^2 / 2h^2) = sum_k coefficient[k] x^k.

    He_{k+1}(t) = t He_k(t) - k He_{k-1}(t), here divided by k! h^k as it goes.
    """
    t = (np.arange(bins)[None, :] / (bins - 1) - nodes[:, None]) / bandwidth
    rows = [np.exp(-0.5 * t * t), np.exp(-0.5 * t * t) * t / bandwidth]
    rows[0][rows[0] < 1e-30] = 0.0  # nothing near the clamp, and denormals are slow
    rows[1][rows[0] == 0.0] = 0.0
    for k in range(1, terms - 1):
        rows.append((t * rows[k] - rows[k - 1] / bandwidth) / ((k + 1) * bandwidth))
    return np.stack(rows, axis=1)


@lru_cache(maxsize=16)
def small_series(bins: int, bandwidth: float, terms: int) -> Array:
    """Coefficients [K, B] that turn the moments of p <= tau into soft bins."""
    return np.asarray(gaussian_series(np.zeros(1), bins, bandwidth, terms)[0])


@lru_cache(maxsize=16)
def new_grid(classes: int, bins: int, bandwidth: float) -> Grid:
    """Soft bins at equally spaced centres; tau also stays inside the first hard bin."""
    farthest = 1.0 + min(0.5 / ((bins - 1) * bandwidth), 8.0)  # beyond 8 the clamp takes over
    density = 2.0 ** np.ceil(np.log2(0.5 * farthest / (0.139 * bandwidth)))
    nodes = np.arange(int(density) + 2) / density
    groups = padded(bins) // WIDTH
    series = np.zeros((len(nodes), ORDER, groups * WIDTH))
    series[:, :, :bins] = gaussian_series(nodes, bins, bandwidth, ORDER)
    table = aligned_zeros(len(nodes), groups, ORDER, WIDTH)
    table[...] = series.reshape(-1, ORDER, groups, WIDTH).swapaxes(1, 2)
    limit = min(REACH[_terms(classes)] * bandwidth, 0.999 / bins)
    return Grid(table, density, limit, np.arange(bins + 1) / bins)


def _terms(classes: int) -> int:
    return 13 if classes < 128 else 9


def new_sums(classes: int, bins: int) -> Sums:
    """Zeros."""
    wide, soft = padded(classes), padded(bins)
    return Sums(
        brier=np.zeros(1),
        support=np.zeros(classes, dtype=np.int64),
        correct=np.zeros(classes, dtype=np.int64),
        nll=np.zeros(classes),
        moments=aligned_zeros(_terms(classes), wide),
        small_mass=aligned_zeros(wide).view(np.int64),
        soft=aligned_zeros(classes, soft // WIDTH, 2, WIDTH),
        soft_label=aligned_zeros(classes, soft),
        top_soft=aligned_zeros(4, soft),
        mass=np.zeros((classes, bins), dtype=np.int64),
        labels=np.zeros((classes, bins), dtype=np.int64),
        top_mass=np.zeros(bins, dtype=np.int64),
        top_right=np.zeros(bins, dtype=np.int64),
    )


def copy_sums(sums: Sums) -> Sums:
    """An independent copy, aligned like the original."""
    copy = new_sums(len(sums.support), len(sums.top_mass))
    for old, new in zip(sums, copy, strict=True):
        new[...] = old
    return copy


@compiled()
def accumulate(
    values: Array, labels: Array, tolerance: float, grid: Grid, block: Block, sums: Sums
) -> int:
    """Add rows [n, C] to the sums; the first unusable row, or -1.

    `tolerance` < 0 says that the values are logits. After an unusable row the sums are void.
    """
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
        rows = stop - start
        if sums.moments.shape[0] == 9:
            power_sums_9(
                block.values,
                block.inverse,
                rows,
                grid.limit,
                sums.moments,
                sums.small_mass,
                block.marks,
            )
        else:
            power_sums_13(
                block.values,
                block.inverse,
                rows,
                grid.limit,
                sums.moments,
                sums.small_mass,
                block.marks,
            )
        _add_tops(part, truth, block, grid, sums)
        _add_labels(part, truth, block, grid, sums)
        _add_large(part, truth, block, grid, sums)
    for c in range(sums.small_mass.size):
        sums.small_mass[c] -= labels.size * bits_from_float(GRID_SHIFT)
    return -1


@compiled()
def _add_tops(raw: Array, labels: Array, block: Block, grid: Grid, sums: Sums) -> None:
    """Top-label bins; the sum of a row's Gaussians is a denominator, clamped like the others."""
    table, density, step = grid.table, grid.density, 1.0 / grid.density
    weights, soft, hard, right = block.weights, sums.top_soft, sums.top_mass, sums.top_right
    for i in range(labels.size):
        u = block.top[i]
        node = np.int64(u * density + 0.5)
        scale = 1.0 / max(bell(table, node, u - node * step, weights), 1e-8)
        add_scaled(soft, 2 * block.right[i], scale, weights)
        add_scaled(soft, 2 * block.right[i] + 1, scale * u, weights)
        b = clear_bin(u, hard.size)
        if b < 0:
            u = exact_probability(u, block.shift[i], raw[i], i, block)
            b = exact_bin(u, grid.edges)
        hard[b] += units(u)
        right[b] += block.right[i]


@compiled()
def _add_labels(raw: Array, labels: Array, block: Block, grid: Grid, sums: Sums) -> None:
    """True classes: (1 - p)^2 - p^2 completes the Brier score, whose p^2 are summed elsewhere."""
    table, density, step = grid.table, grid.density, 1.0 / grid.density
    weights, soft, hard, brier = block.weights, sums.soft_label, sums.labels, 0.0
    for i in range(labels.size):
        y = labels[i]
        p = block.values[i, y] * block.inverse[i]
        node = np.int64(p * density + 0.5)
        bell(table, node, p - node * step, weights)
        add_scaled(soft, y, p, weights)
        brier += 1.0 - 2.0 * p
        b = clear_bin(p, hard.shape[1])
        if b < 0:
            p = exact_probability(p, np.float64(raw[i, y]), raw[i], i, block)
            b = exact_bin(p, grid.edges)
        hard[y, b] += 1
        sums.support[y] += 1
        sums.correct[y] += block.right[i]
        sums.nll[y] += block.nll[i]
    sums.brier[0] += brier


@compiled()
def _add_large(raw: Array, labels: Array, block: Block, grid: Grid, sums: Sums) -> None:
    """The marked probabilities, those above tau, one by one."""
    table, density, step = grid.table, grid.density, 1.0 / grid.density
    soft, hard, brier = sums.soft, sums.mass, 0.0
    for i in range(labels.size):
        inverse = block.inverse[i]
        for word in range(block.words.shape[1]):
            marks = block.words[i, word]
            while marks:
                c = 64 * word + lowest_bit(marks)
                marks &= marks - 1
                p = block.values[i, c] * inverse
                brier += p * p
                node = np.int64(p * density + 0.5)
                add_bell(table, node, p - node * step, soft, c, p, p * p)
                b = clear_bin(p, hard.shape[1])
                if b < 0:
                    p = exact_probability(p, np.float64(raw[i, c]), raw[i], i, block)
                    b = exact_bin(p, grid.edges)
                hard[c, b] += units(p)
    sums.brier[0] += brier


@compiled()
def clear_bin(p: float, bins: int) -> int:
    """b - 1 where (b - 1)/B < p <= b/B, or -1 where an error of 1e-9 could change that."""
    place = p * bins
    above = np.ceil(place)
    if abs(above - place - 0.5) > 0.5 - 1e-9 * bins and 0.5 < place < bins - 0.5:
        return -1
    return max(int(min(above, float(bins))) - 1, 0)


@compiled()
def exact_bin(p: float, edges: Array) -> int:
    """The same, decided by the edges b/B themselves."""
    b = min(int(p * (edges.size - 1)), edges.size - 2)
    if b > 0 and p <= edges[b]:
        return b - 1
    if b < edges.size - 2 and p > edges[b + 1]:
        return b + 1
    return b


@compiled()
def units(p: float) -> int:
    """p rounded to an integer number of units of 2**-36, for sums that have no order."""
    return int(np.rint(p * 2.0**GRID_BITS))
