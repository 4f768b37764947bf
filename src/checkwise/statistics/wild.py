"""The wild cluster bootstrap-t: signs of whole clusters are flipped under the null hypothesis.

It does not assume normality and is more reliable than t when clusters are few and differ in size.
With G clusters there are 2^G sign patterns, so no p-value is below 2^(1−G): with five clusters or
fewer nothing can be excluded at 95%, and the interval is the whole line.
(Cameron, Gelbach & Miller 2008, null imposed; the interval inverts the test.)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from checkwise.statistics.bootstrap import LEVEL, SEED, finite_table
from checkwise.statistics.clusters import Clusters, cluster_means

FloatArray = NDArray[np.float64]

ENUMERATED = 12  # up to this many clusters every sign pattern is used, 2^11 up to a common sign
DRAWN = 4_999  # patterns drawn beyond that, besides the observed one
TIE = 1e-7  # |t| that differ by less, relatively, are equal but for rounding
_STEPS = 40


@dataclass(frozen=True, eq=False)
class Flips:
    """One column under every sign pattern w, as far as any null hypothesis needs it.

    With cluster sums S_g, sizes n_g and null μ, a pattern's mean is Σ w_g (S_g − μ n_g) / n and its
    residuals sum to w_g (S_g − μ n_g) − mean·n_g in cluster g. Both are polynomials in μ whose
    coefficients are sums over clusters, taken once.
    """

    n: float
    clusters: int
    signed: FloatArray  # [R, 4]: Σ w S, Σ w n, Σ w S n, Σ w n²
    plain: FloatArray  # [3]: Σ S², Σ S n, Σ n²

    def t(self, null: float) -> FloatArray:
        """|t| of mean = ``null`` under every pattern, [R]; the first is the observed one."""
        ws, wn, wsn, wnn = self.signed.T
        ss, sn, nn = self.plain
        mean = (ws - null * wn) / self.n
        squares = ss - 2 * null * sn + null**2 * nn
        left = squares - 2 * mean * (wsn - null * wnn) + mean**2 * nn
        error = np.sqrt(self.clusters / (self.clusters - 1) * np.maximum(left, 0.0)) / self.n
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.abs(mean) / error)

    def p_value(self, null: float) -> float:
        """Share of patterns that reach the observed |t|."""
        t = self.t(null)
        return float("nan") if np.isnan(t[0]) else float((t >= t[0] * (1 - TIE)).mean())


def flips(values: FloatArray, groups: Clusters) -> list[Flips]:
    """Every column of ``values`` [n, K] under the same sign patterns."""
    signs = sign_patterns(groups.count)
    sums, sizes = groups.sums(values), groups.sizes.astype(np.float64)
    w_sizes = signs @ np.stack([sizes, sizes**2], axis=1)
    w_sums, w_both = signs @ sums, signs @ (sums * sizes[:, None])
    return [
        Flips(
            float(sizes.sum()),
            groups.count,
            np.stack([w_sums[:, k], w_sizes[:, 0], w_both[:, k], w_sizes[:, 1]], axis=1),
            np.array([(s**2).sum(), (s * sizes).sum(), (sizes**2).sum()]),
        )
        for k, s in enumerate(sums.T)
    ]


def wild_p_value(values: FloatArray, groups: Clusters, null: float = 0.0) -> FloatArray:
    """Two-sided p-value of mean = ``null`` for every column of ``values`` [n, K]."""
    table = finite_table(values)
    if groups.count < 2:
        return np.full(table.shape[1], np.nan)
    return np.array([column.p_value(null) for column in flips(table, groups)])


def wild_interval(
    values: FloatArray, groups: Clusters, *, level: float = LEVEL
) -> tuple[FloatArray, FloatArray]:
    """All means that the test does not reject at 1 − ``level``, for every column of ``values``.

    Ends are infinite where no sign pattern is rare enough to exclude anything.
    """
    table = finite_table(values)
    low = np.full(table.shape[1], np.nan)
    high = low.copy()
    if groups.count < 2:
        return low, high
    means = cluster_means(table, groups)
    # Around its mean a column keeps its digits.
    for k, column in enumerate(flips(table - means.mean, groups)):
        centre, error = float(means.mean[k]), float(means.error[k])
        low[k] = centre + (_end(column, -error, 1 - level) if error else 0.0)
        high[k] = centre + (_end(column, error, 1 - level) if error else 0.0)
    return low, high


@lru_cache(maxsize=8)
def sign_patterns(G: int) -> FloatArray:
    """Rows of ±1 [R, G], the first all +1; a pattern and its opposite count once.

    Example:
        >>> sign_patterns(3).shape, sign_patterns(20).shape
        ((4, 3), (5000, 20))
    """
    if G <= ENUMERATED:
        bits = np.arange(2 ** (G - 1))[:, None] >> np.arange(G) & 1
        return np.asarray(1.0 - 2.0 * bits, dtype=np.float64)
    random = np.random.default_rng(SEED).integers(0, 2, (DRAWN, G))
    return np.vstack([np.ones(G), 1.0 - 2.0 * random])


def _end(column: Flips, step: float, alpha: float) -> float:
    """Walk away from the mean, at 0, until rejected; then halve the bracket."""
    if alpha < 1 / len(column.signed):
        return float(np.copysign(np.inf, step))
    inside, outside = 0.0, step
    for _ in range(_STEPS):
        if column.p_value(outside) <= alpha:
            break
        inside, outside = outside, 2 * outside
    else:
        return float(np.copysign(np.inf, step))
    for _ in range(_STEPS):
        middle = (inside + outside) / 2
        if column.p_value(middle) <= alpha:
            outside = middle
        else:
            inside = middle
    return (inside + outside) / 2
