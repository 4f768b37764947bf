"""Means over runs in clusters, with standard errors that allow for dependence inside a cluster.

Runs that share a seed or a held-out domain are alike: counting them as independent would make
standard errors too small. Beside the means stands how runs and examples spread.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import naming_extras
from checkwise.statistics import LEVEL, finite_table

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Clusters:
    """A cluster number from 0 to G − 1 for every run (``of``); ``name`` says what a cluster is."""

    of: IntArray
    count: int
    name: str

    def sums(self, values: FloatArray) -> FloatArray:
        total = np.zeros((self.count, *values.shape[1:]))
        np.add.at(total, self.of, values)
        return total

    @property
    def sizes(self) -> IntArray:
        return np.bincount(self.of, minlength=self.count).astype(np.int64)

    def crossed(self, other: Clusters) -> Clusters:
        """Smaller clusters: runs that share their cluster both here and in ``other``."""
        pairs = zip(self.of.tolist(), other.of.tolist(), strict=True)
        return numbered(list(pairs), f"{self.name} and {other.name}")


def numbered(labels: Sequence[Hashable], name: str) -> Clusters:
    """Clusters from any labels, numbered in order of appearance."""
    number: dict[Hashable, int] = {}
    of = np.array([number.setdefault(label, len(number)) for label in labels], dtype=np.int64)
    return Clusters(of, len(number), name)


@dataclass(frozen=True, eq=False)
class ClusterMeans:
    """Means of K columns over runs in G clusters, with cluster-robust standard errors."""

    n: int  # runs and clusters
    clusters: int
    mean: FloatArray  # [K], every run weighing the same
    # [K] standard errors, CR1: √(G/(G−1) Σ_g (Σ_{i in g} residual_i)²) / n. With equally large
    # clusters this is the standard error of a mean of G cluster means.
    error: FloatArray

    @property
    def df(self) -> int:
        return self.clusters - 1

    def interval(self, level: float = LEVEL) -> tuple[FloatArray, FloatArray]:
        """Ends of the t interval; nan with fewer than two clusters."""
        half = self.quantile((1 + level) / 2) * self.error
        return self.mean - half, self.mean + half

    def p_value(self, null: float = 0.0) -> FloatArray:
        """Two-sided p-value of mean = ``null``; nan without any spread."""
        return 2 * np.minimum(self.p_above(null), self.p_below(null))

    def p_above(self, null: float) -> FloatArray:
        """One-sided p-value: small where the mean is clearly above ``null``."""
        return self._below(-self._statistic(null))

    def p_below(self, null: float) -> FloatArray:
        """One-sided p-value: small where the mean is clearly below ``null``."""
        return self._below(self._statistic(null))

    @naming_extras()
    def quantile(self, share: float) -> float:
        """The quantile of Student's t with ``df`` degrees of freedom; nan without any."""
        from scipy.special import stdtrit

        return float(stdtrit(self.df, share)) if self.df else float("nan")

    @naming_extras()
    def _below(self, statistic: FloatArray) -> FloatArray:
        from scipy.special import stdtr  # scipy.stats would take a second to import

        nothing = np.full(statistic.shape, np.nan)
        return np.asarray(stdtr(self.df, statistic)) if self.df else nothing

    def _statistic(self, null: float) -> FloatArray:
        flat = ~(self.error > 0)
        return np.where(flat, np.nan, (self.mean - null) / np.where(flat, 1.0, self.error))


def cluster_means(values: FloatArray, groups: Clusters) -> ClusterMeans:
    """Mean and cluster-robust standard error of every column of ``values`` [n, K].

    Example:
        >>> means = cluster_means(np.array([[1.0], [3.0], [5.0], [7.0]]), numbered("aabb", "pair"))
        >>> means.mean, means.error, means.df
        (array([4.]), array([2.]), 1)
    """
    table = finite_table(values)
    n, G = len(table), groups.count
    mean = table.mean(axis=0) if n else np.full(table.shape[1], np.nan)
    if G < 2:
        return ClusterMeans(n, G, mean, np.full(table.shape[1], np.nan))
    sums = groups.sums(table - mean)
    error = np.sqrt(G / (G - 1) * (sums**2).sum(axis=0)) / n
    # Equal values have no spread; what is left is rounding.
    error[np.ptp(table, axis=0) == 0] = 0.0
    return ClusterMeans(n, G, mean, error)


def two_way_means(values: FloatArray, first: Clusters, second: Clusters) -> ClusterMeans:
    """Two-way clustered means: runs share seeds (``first``) and a held-out domain (``second``).

    The variance is the sum of the two clustered variances minus that of the crossed clusters, and
    at least the larger of the two. The degrees of freedom come from the smaller number of clusters.
    """
    one, other = cluster_means(values, first), cluster_means(values, second)
    shared = cluster_means(values, first.crossed(second))
    variance = one.error**2 + other.error**2 - shared.error**2
    larger = np.maximum(one.error, other.error)
    error = np.maximum(np.sqrt(np.maximum(variance, 0.0)), larger)
    return ClusterMeans(one.n, min(one.clusters, other.clusters), one.mean, error)


@dataclass(frozen=True, eq=False)
class PlaceMeans:
    """The means of G places, and what they say about other places."""

    by_place: FloatArray  # [G] mean of the runs of each place
    means: ClusterMeans  # their mean with its standard error s / √G and G − 1 degrees of freedom

    @property
    def places(self) -> int:
        return len(self.by_place)

    @property
    def mean(self) -> float:
        return float(self.means.mean[0])

    @property
    def p(self) -> float:
        """Two-sided p-value of a mean of 0. Without any spread: 1 if all are 0, else 0."""
        if self.places < 2:
            return float("nan")
        if not self.means.error[0] > 0:
            return float(self.mean == 0)
        return float(self.means.p_value()[0])

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Ends of the t interval of the mean over places; nan with fewer than two."""
        low, high = self.means.interval(level)
        return float(low[0]), float(high[0])

    def new_place(self, level: float = LEVEL) -> tuple[float, float]:
        """Where the mean at one new place of the same kind is expected: m ± t·s·√(1 + 1/G).

        It holds if places are a random sample of a normal distribution, and the new one gets as
        many runs as these. nan with fewer than two places.
        """
        s = float(self.means.error[0]) * np.sqrt(self.places)
        half = self.means.quantile((1 + level) / 2) * s * np.sqrt(1 + 1 / max(self.places, 1))
        return self.mean - float(half), self.mean + float(half)


def over_places(values: FloatArray, groups: Clusters) -> PlaceMeans:
    """The mean of ``values`` [n] by place, and over places.

    Example:
        >>> found = over_places(np.array([1.0, 3.0, 5.0, 5.0, 2.0]), numbered("aabbc", "place"))
        >>> found.by_place, found.mean, tuple(round(end, 2) for end in found.new_place())
        (array([2., 5., 2.]), 3.0, (-5.61, 11.61))
    """
    column = np.asarray(values, dtype=np.float64)
    by_place = groups.sums(column) / groups.sizes
    alone = numbered(range(groups.count), groups.name)
    return PlaceMeans(by_place, cluster_means(by_place[:, None], alone))


BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """Distinct coverages, increasing, and the error rate among the predictions covered.

    ``area`` is the mean error rate over all coverages 1/n … 1, examples of equal confidence
    sharing theirs; smaller is better.
    """

    coverage: FloatArray
    risk: FloatArray
    area: float

    def at(self, coverage: float) -> float:
        return float(np.interp(coverage, self.coverage, self.risk))


def risk_coverage(confidence: FloatArray, correct: BoolArray) -> RiskCoverage:
    """The curve of n predictions; equally confident ones enter together.

    Example:
        >>> right = np.array([True, True, False, True])
        >>> curve = risk_coverage(np.array([0.9, 0.8, 0.7, 0.7]), right)
        >>> curve.coverage.tolist(), curve.risk.tolist()
        ([0.25, 0.5, 1.0], [0.0, 0.0, 0.25])
    """
    u, right = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=bool)
    order = np.argsort(-u, kind="stable")
    wrong = np.cumsum(~right[order])
    last = np.append(u[order][1:] != u[order][:-1], True)
    ends = np.flatnonzero(last)
    risk = wrong[ends] / (ends + 1)
    widths = np.diff(np.concatenate([[-1], ends]))
    return RiskCoverage((ends + 1) / len(u), risk, float((risk * widths).sum() / len(u)))


POINT = 1.0
# Means over held-out domains carry rounding: a smaller difference counts as a tie.
SLACK = 1e-12
# Exactly one point is a loss of one point, whatever rounding says.
EDGE = 1e-9
TRIM = 0.05


@dataclass(frozen=True)
class Spread:
    """Counts of runs, and the tail of the losses on the scale of the differences."""

    n: int  # runs where the rule is better, equal, worse
    wins: int
    ties: int
    losses: int
    lose_point: int  # runs that are worse by at least one point
    tail: float  # the 5th percentile of the differences, counted from the worse side
    worst: float  # the largest loss (negative where the rule is worse)


def spread(values: FloatArray, *, higher_is_better: bool) -> Spread:
    """Count the runs; ``values`` [n] are rule − reference.

    Example:
        >>> spread(np.array([2.0, -1.0, 0.0, 0.5]), higher_is_better=True).lose_point
        1
    """
    better = np.asarray(values, dtype=np.float64) * (1 if higher_is_better else -1)
    return Spread(
        n=len(better),
        wins=int((better > SLACK).sum()),
        ties=int((np.abs(better) <= SLACK).sum()),
        losses=int((better < -SLACK).sum()),
        lose_point=int((better <= -POINT + EDGE).sum()),
        tail=float(np.percentile(better, 5)) if len(better) else float("nan"),
        worst=float(better.min()) if len(better) else float("nan"),
    )


def trimmed_mean(values: FloatArray) -> float:
    """The mean without the lowest and highest 5% of values (rounded down); nan of nothing."""
    n = len(values)
    cut = int(TRIM * n)
    return float(np.sort(values)[cut : n - cut].mean()) if n else float("nan")
