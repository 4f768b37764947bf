"""Tests of means over clusters: equivalence, sign flips, corrections, what can be detected."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from checkwise.errors import InputError
from checkwise.statistics import LEVEL, SEED, finite_table
from checkwise.study.inference.clusters import ClusterMeans, Clusters, FloatArray, cluster_means

ALPHA = 0.05
POWER = 0.8


@dataclass(frozen=True)
class Equivalence:
    """Two one-sided t-tests of one mean difference against ±margin."""

    # the difference and its 1 − 2α interval, which lies inside ±margin exactly when
    # ``p_equivalent`` is at most α
    mean: float
    low: float
    high: float
    p_equivalent: float  # p-value of |difference| ≥ margin
    p_noninferior: float  # p-value of being worse by at least the margin


def equivalence(means: ClusterMeans, margin: float, *, higher_is_better: bool) -> Equivalence:
    """Test the first of some means against ±``margin``, the largest harmless difference.

    Example:
        >>> from checkwise.study.inference.clusters import cluster_means, numbered
        >>> values = np.array([[-0.1], [0.0], [0.1], [0.0]])
        >>> means = cluster_means(values, numbered(range(4), "run"))
        >>> test = equivalence(means, 0.5, higher_is_better=True)
        >>> test.p_equivalent <= ALPHA, test.p_noninferior <= ALPHA
        (True, True)
    """
    if not margin > 0:
        raise InputError(f"Expected a `margin` above 0, but got {margin}: it is a size.")
    low, high = means.interval(1 - 2 * ALPHA)
    above, below = (_or_one(p) for p in (means.p_above(-margin), means.p_below(margin)))
    if means.error[0] == 0:  # no spread: the mean decides
        above, below = float(means.mean[0] <= -margin), float(means.mean[0] >= margin)
    return Equivalence(
        mean=float(means.mean[0]),
        low=float(low[0]),
        high=float(high[0]),
        p_equivalent=max(above, below),
        p_noninferior=above if higher_is_better else below,
    )


def minimum_detectable_effect(
    means: ClusterMeans, *, alpha: float = ALPHA, power: float = POWER
) -> FloatArray:
    """(t_{1−α/2} + t_{power}) × standard error, for every column, with G − 1 degrees of freedom.

    The t-test at level α would detect a true difference of this size with probability ``power``,
    if clusters differ as much as they do here. nan with fewer than two clusters.

    Example:
        >>> from checkwise.study.inference.clusters import cluster_means, numbered
        >>> runs = np.random.default_rng(0).normal(size=(400, 1))
        >>> means = cluster_means(runs, numbered(range(400), "run"))
        >>> minimum_detectable_effect(means).round(2)  # about 2.8 standard errors
        array([0.14])
    """
    return (means.quantile(1 - alpha / 2) + means.quantile(power)) * means.error


def _or_one(p: FloatArray) -> float:
    """The p-value, or 1 where there is none: then nothing is shown."""
    return 1.0 if np.isnan(p[0]) else float(p[0])


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
    """All means that the test does not reject; ends are infinite where nothing is excluded."""
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


def holm(p_values: FloatArray) -> FloatArray:
    """Holm's step-down correction; nan is left out of the count.

    Example:
        >>> holm(np.array([0.01, 0.04, 0.03])).round(3)
        array([0.03, 0.06, 0.06])
    """
    p = np.asarray(p_values, dtype=np.float64)
    corrected = np.full(p.shape, np.nan)
    order = np.argsort(p, kind="stable")[: int(np.isfinite(p).sum())]
    factors = np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(factors * p[order]))
    return corrected


def max_t(values: FloatArray, groups: Clusters) -> FloatArray:
    """p-values of mean = 0 for every column of ``values`` [n, K], corrected for the K columns.

    Single-step: the share of sign patterns, the same for all columns, under which the largest |t|
    of any column reaches the column's own. It knows how the columns move together, which Holm
    does not. A column without spread gets nan.
    """
    table = finite_table(values)
    if groups.count < 2:
        return np.full(table.shape[1], np.nan)
    t = np.stack([column.t(0.0) for column in flips(table, groups)], axis=1)
    none = np.isnan(t[0])
    largest = np.where(np.isnan(t), -np.inf, t).max(axis=1, keepdims=True)
    p = (largest >= np.where(none, np.inf, t[0]) * (1 - TIE)).mean(axis=0)
    return np.where(none, np.nan, p)
