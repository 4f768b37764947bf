"""The smallest true difference that a study of this size would probably have found."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.study.cluster_t import ClusterMeans

FloatArray = NDArray[np.float64]

POWER = 0.8


def minimum_detectable_effect(
    means: ClusterMeans, *, alpha: float = 0.05, power: float = POWER
) -> FloatArray:
    """(t_{1−α/2} + t_{power}) × standard error, for every column, with G − 1 degrees of freedom.

    A true difference of this size would be resolved at level α with that probability, if the
    spread over clusters is what it was here. nan with fewer than two clusters.

    Example:
        >>> from checkwise.study.cluster_t import cluster_means
        >>> from checkwise.study.clusters import numbered
        >>> runs = np.random.default_rng(0).normal(size=(400, 1))
        >>> means = cluster_means(runs, numbered(range(400), "run"))
        >>> minimum_detectable_effect(means).round(2)  # about 2.8 standard errors
        array([0.14])
    """
    if not 0 < alpha < 1 or not 0 < power < 1:
        raise InputError(f"Expected alpha and power between 0 and 1, but got {alpha} and {power}.")
    return (means.quantile(1 - alpha / 2) + means.quantile(power)) * means.error
