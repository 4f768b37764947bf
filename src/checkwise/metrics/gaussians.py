"""Gaussian soft bins without evaluating every Gaussian: moments, and the series that use them.

Soft class-wise bins need sum_i p_i g_b(p_i) and sum_i p_i^2 g_b(p_i) of every class and bin, where
g_b(p) = exp(-(p - mu_b)^2 / 2h^2). Within an interval that is short against h a Gaussian is a
polynomial of degree 7, so eight moments of the p that lie there replace all bins. The error per
unit of p is about 2 (w / 4h)^8 / sqrt(8!), or 6e-9, on an interval of w = 0.67 h:

    p <= tau, "small":  moments sum p x^k of a whole column at once, x across [0, tau]
    p > tau, "large":   moments sum p x^k in the cell of p, x across the cell; they are few, since
                        a row sums to 1

x runs from -1/2 to 1/2: powers of a p near 0 itself would be denormal, which costs time.
Cells divide the hard bins, so the moments k = 0 are also what hard-bin errors need. Between
centres far apart all Gaussians are small and their ratios matter: there cells are shorter.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, cos, pi
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

TERMS = 8  # K, the number of moments
REACH = 0.67  # w / h
_ABOVE = 1 + 1e-12  # times p: never below its cell by rounding
CLAMP = 1e-8  # smallest denominator of a soft bin


class Grid(NamedTuple):
    """Where the B bins are, what lies in which cell, and the series of the Gaussians."""

    bins: int
    bandwidth: float
    density: int  # cells per unit, a multiple of B
    tau: float
    edges: Array  # [J + 1] of the cells, in double precision; -1 in place of 0
    small: Array  # [K, 2, B] turns moments of small p into sums of p g and of p^2 g
    large: Array  # [K, J, 2, B] the same of large p, cell by cell

    def cell_of(self, p: Array) -> Array:
        """The j with j / density < p <= (j + 1) / density; 0 is in the first cell."""
        j = (p * (self.density * _ABOVE)).astype(np.int64)
        j -= p <= self.edges[j]
        return np.asarray(j)

    def bin_of(self, cell: Array) -> Array:
        """The hard bin in which a cell lies; what exceeds 1 is in the last."""
        return np.asarray(np.minimum(cell // (self.density // self.bins), self.bins - 1))

    def place_in(self, cell: Array, p: Array) -> Array:
        """x, from -1/2 at the lower edge of the cell to 1/2 at the upper one."""
        x = p * self.density
        x -= cell
        x -= 0.5
        return np.asarray(x)

    def gaussians(self, p: Array, out: Array | None = None) -> Array:
        """g_b of every p, [B, ...]."""
        return gaussians(p, self.bins, self.bandwidth, out)

    def shares(self, confidence: Array) -> Array:
        """w_b = g_b / sum_r g_r of every confidence, [B, ...], denominators at least 1e-8."""
        weights = self.gaussians(confidence)
        weights /= np.maximum(weights.sum(axis=0), CLAMP)
        return weights


def gaussians(p: Array, bins: int, bandwidth: float, out: Array | None = None) -> Array:
    """g_b of every p, [B, ...]."""
    centres = (np.arange(bins) / (bins - 1)).reshape(-1, *[1] * p.ndim)
    distance = np.subtract(p, centres, out=out)
    distance *= distance
    distance *= -0.5 / bandwidth**2
    return np.asarray(np.exp(distance, out=distance))


@lru_cache(maxsize=16)
def new_grid(bins: int, bandwidth: float) -> Grid:
    """Bins at equally spaced centres."""
    density = density_of(bins, bandwidth)
    tau = min(REACH * bandwidth, 0.999 / bins)  # inside the first hard bin
    cells = np.arange(cells_of(density))
    nodes = np.array([cos(pi * (k + 0.5) / TERMS) for k in range(TERMS)]) / 2  # Chebyshev's
    place = (nodes + 0.5)[:, None]
    return Grid(
        bins,
        bandwidth,
        density,
        tau,
        edges=np.append(-1.0, np.arange(1, len(cells) + 1) / density),
        small=_series(nodes, tau * place, bins, bandwidth)[:, 0],
        large=_series(nodes, (cells + place) / density, bins, bandwidth),
    )


def density_of(bins: int, bandwidth: float) -> int:
    """Cells per unit: each hard bin is one, or several where the bandwidth is small against it."""
    farthest = min(0.5 / ((bins - 1) * bandwidth), 8.0)  # beyond 8 h the clamp takes over
    return bins * ceil((1 + farthest) / (1.36 * REACH * bandwidth * bins))


def cells_of(density: int) -> int:
    """J: a given p may exceed 1 by 1e-2."""
    return ceil(1.01 * density + 1e-9)


def _series(variable: Array, p: Array, bins: int, bandwidth: float) -> Array:
    """Coefficients [K, cells, 2, B] of g_b(p) and p g_b(p), exact at K nodes p [K, cells]."""
    values = np.moveaxis(gaussians(p, bins, bandwidth), 0, -1)
    both = np.stack([values, p[..., None] * values], axis=2)
    powers = np.vander(variable, TERMS, increasing=True)
    return np.linalg.solve(powers, both.reshape(TERMS, -1)).reshape(both.shape)
