"""Equivalence within a margin, and the smallest effect that a design can detect."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.statistics.clusters import ClusterMeans, Clusters, cluster_means

FloatArray = NDArray[np.float64]

ALPHA = 0.05
POWER = 0.8


@dataclass(frozen=True)
class Equivalence:
    """Two one-sided t-tests of one mean difference against ±margin.

    Args:
        mean, low, high: the difference and its 1 − 2α interval, which lies inside ±margin exactly
            when ``p_equivalent`` is at most α.
        p_equivalent: p-value of |difference| ≥ margin.
        p_noninferior: p-value of being worse by at least the margin.
    """

    mean: float
    low: float
    high: float
    p_equivalent: float
    p_noninferior: float


def equivalence(
    values: FloatArray, groups: Clusters, margin: float, *, higher_is_better: bool
) -> Equivalence:
    """Test the mean of ``values`` [n] against ±``margin``, the largest harmless difference.

    Example:
        >>> from checkwise.statistics.clusters import numbered
        >>> runs = numbered(range(4), "run")
        >>> test = equivalence(np.array([-0.1, 0.0, 0.1, 0.0]), runs, 0.5, higher_is_better=True)
        >>> test.p_equivalent <= ALPHA, test.p_noninferior <= ALPHA
        (True, True)
    """
    means = cluster_means(np.asarray(values, dtype=np.float64)[:, None], groups)
    return equivalence_of(means, margin, higher_is_better=higher_is_better)


def equivalence_of(means: ClusterMeans, margin: float, *, higher_is_better: bool) -> Equivalence:
    """Test the first of some means against ±``margin``, whatever unit its standard error is by."""
    if not margin > 0:
        raise InputError(
            f"Expected a `margin` above 0 (the largest difference that would not matter), but got "
            f"{margin}."
        )
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
        >>> from checkwise.statistics.clusters import cluster_means, numbered
        >>> runs = np.random.default_rng(0).normal(size=(400, 1))
        >>> means = cluster_means(runs, numbered(range(400), "run"))
        >>> minimum_detectable_effect(means).round(2)  # about 2.8 standard errors
        array([0.14])
    """
    if not 0 < alpha < 1 or not 0 < power < 1:
        raise InputError(
            f"Expected `alpha` and `power` between 0 and 1, but got {alpha} and {power}."
        )
    return (means.quantile(1 - alpha / 2) + means.quantile(power)) * means.error


def _or_one(p: FloatArray) -> float:
    """The p-value, or 1 where there is none: then nothing is shown."""
    return 1.0 if np.isnan(p[0]) else float(p[0])
