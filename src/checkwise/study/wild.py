"""The wild cluster bootstrap-t: signs of whole clusters are flipped under the null hypothesis.

It needs no normality and holds up better than t when clusters are few and unlike in size. With G
clusters there are 2^G sign patterns, so no p-value is below 2^(1−G): five clusters or fewer cannot
exclude anything at 95%, and the interval is the whole line.
(Cameron, Gelbach & Miller 2008, null imposed; the interval inverts the test.)
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from checkwise.study.bootstrap import LEVEL, SEED, checked
from checkwise.study.cluster_t import cluster_means
from checkwise.study.clusters import Clusters

FloatArray = NDArray[np.float64]

ENUMERATED = 12  # up to this many clusters every sign pattern is used, 2^11 up to a common sign
DRAWN = 4_999  # patterns drawn beyond that, besides the observed one
_TIE = 1e-9
_STEPS = 40


def wild_p_value(
    values: FloatArray, groups: Clusters, null: float = 0.0, *, seed: int = SEED
) -> FloatArray:
    """Two-sided p-value of mean = ``null`` for every column of ``values`` [n, K]."""
    table = checked(values)
    if groups.count < 2:
        return np.full(table.shape[1], np.nan)
    signs = sign_patterns(groups.count, seed)
    return np.array([_p(table[:, k], groups, signs, null) for k in range(table.shape[1])])


def wild_interval(
    values: FloatArray, groups: Clusters, *, level: float = LEVEL, seed: int = SEED
) -> tuple[FloatArray, FloatArray]:
    """All means that the test does not reject at 1 − ``level``, for every column of ``values``.

    Ends are infinite where no sign pattern is rare enough to exclude anything.
    """
    table = checked(values)
    low = np.full(table.shape[1], np.nan)
    high = low.copy()
    if groups.count < 2:
        return low, high
    signs = sign_patterns(groups.count, seed)
    means = cluster_means(table, groups)
    for k in range(table.shape[1]):
        column, centre, error = table[:, k], float(means.mean[k]), float(means.error[k])
        if error == 0:
            low[k] = high[k] = centre
            continue
        low[k] = _end(column, groups, signs, centre, -error, 1 - level)
        high[k] = _end(column, groups, signs, centre, error, 1 - level)
    return low, high


@lru_cache(maxsize=8)
def sign_patterns(G: int, seed: int = SEED) -> FloatArray:
    """Rows of ±1 [R, G], the first all +1; a pattern and its opposite count once.

    >>> sign_patterns(3).shape, sign_patterns(20).shape
    ((4, 3), (5000, 20))
    """
    if G <= ENUMERATED:
        bits = np.arange(2 ** (G - 1))[:, None] >> np.arange(G) & 1
        return np.asarray(1.0 - 2.0 * bits, dtype=np.float64)
    random = np.random.default_rng(seed).integers(0, 2, (DRAWN, G))
    return np.vstack([np.ones(G), 1.0 - 2.0 * random])


def flipped_t(sums: FloatArray, sizes: FloatArray, signs: FloatArray) -> FloatArray:
    """|t| of the mean under every sign pattern: [R, G] signs, [G] sums of residuals → [R]."""
    G, n = len(sums), sizes.sum()
    flipped = signs * sums
    mean = flipped.sum(axis=1) / n
    left = flipped - mean[:, None] * sizes
    error = np.sqrt(G / (G - 1) * (left**2).sum(axis=1)) / n
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.abs(mean) / error)


def _p(column: FloatArray, groups: Clusters, signs: FloatArray, null: float) -> float:
    sizes = groups.sizes.astype(np.float64)
    t = flipped_t(groups.sums(column - null), sizes, signs)
    if np.isnan(t[0]):
        return float("nan")
    return float((t >= t[0] * (1 - _TIE)).mean())


def _end(
    column: FloatArray,
    groups: Clusters,
    signs: FloatArray,
    centre: float,
    step: float,
    alpha: float,
) -> float:
    """Walk away from the mean until rejected, then halve the bracket."""
    if alpha < 1 / len(signs):
        return float(np.copysign(np.inf, step))
    inside, width = centre, step
    for _ in range(_STEPS):
        if _p(column, groups, signs, centre + width) <= alpha:
            break
        inside, width = centre + width, 2 * width
    else:
        return float(np.copysign(np.inf, step))
    outside = centre + width
    for _ in range(_STEPS):
        middle = (inside + outside) / 2
        if _p(column, groups, signs, middle) <= alpha:
            outside = middle
        else:
            inside = middle
    return (inside + outside) / 2
