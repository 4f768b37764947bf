"""Gaussian soft bins without evaluating every Gaussian: the power series behind the kernel.

Soft class-wise bins need sum_i p exp(-(p - mu)^2 / 2h^2) for every class and bin. Around a node q
the Gaussian is a power series (the generating function of the Hermite polynomials He_k):

    exp(-(q + x - mu)^2 / 2h^2) = exp(-t^2 / 2) sum_k He_k(t) (x / h)^k / k!,  t = (mu - q) / h

By Cramer's inequality |He_k(t)| <= 1.0865 sqrt(k!) exp(t^2 / 4), so stopping before k = K errs by
at most 1.0865 exp(-t^2 / 4) sum_{k >= K} |x / h|^k / sqrt(k!), whatever the bandwidth:

    p <= tau = 0.6 h, node tau / 2, K = 10:   4e-9 per unit of p; power sums replace the bins
    p > tau, a node within 0.11 h, K = 6:     8e-8 per unit of p; few, since a row sums to 1

Between centres far apart all Gaussians are small and their ratios matter; the relative error,
about |t x / h|^K / K!, is kept below 1e-8 by closer nodes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

REACH = 0.6  # tau / h
TERMS = 10  # K, the number of power sums
ORDER = 6  # coefficients of a local polynomial
CLAMP = 1e-8  # smallest denominator of a soft bin


class Grid(NamedTuple):
    """Where the bins are: B of them, padded to Q."""

    table: Array  # [nodes, ORDER, Q] local polynomials of the soft bins
    density: float  # nodes per unit, a power of 2, so that nodes are exact
    limit: float  # tau
    centre: float  # q = tau / 2, the node of p <= tau
    clamp: float  # smallest denominator


def padded(bins: int) -> int:
    """`bins` rounded up to a multiple of 8, so that vectors of bins have no remainder."""
    return -(-bins // 8) * 8


def largest_small(bins: int, bandwidth: float) -> float:
    """tau, which also stays inside the first hard bin."""
    return min(REACH * bandwidth, 0.999 / bins)


def middle(bins: int, bandwidth: float) -> float:
    """q, the node of p <= tau."""
    return largest_small(bins, bandwidth) / 2


@lru_cache(maxsize=16)
def new_grid(bins: int, bandwidth: float) -> Grid:
    """Soft bins at equally spaced centres."""
    farthest = 1.0 + min(0.5 / ((bins - 1) * bandwidth), 8.0)  # beyond 8 the clamp takes over
    density = 2.0 ** np.ceil(np.log2(0.5 * farthest / (0.139 * bandwidth)))
    nodes = np.arange(int(1.01 * density) + 2) / density  # a given p may exceed 1 by 1e-2
    table = np.zeros((len(nodes), ORDER, padded(bins)))
    table[:, :, :bins] = gaussian_series(nodes, bins, bandwidth, ORDER)
    limit = largest_small(bins, bandwidth)
    return Grid(table, float(density), limit, middle(bins, bandwidth), CLAMP)


@lru_cache(maxsize=16)
def small_series(bins: int, bandwidth: float) -> Array:
    """Coefficients [K, 2, B] that turn the power sums of p <= tau into sums of v and of v p."""
    centre = middle(bins, bandwidth)
    weights = gaussian_series(np.array([centre]), bins, bandwidth, TERMS)[0]
    moments = centre * weights  # p = q + x, and x raises the power by one
    moments[1:] += weights[:-1]
    return np.stack([weights, moments], axis=1)


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
