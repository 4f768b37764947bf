"""Bias-corrected and accelerated ends of a bootstrap distribution of means (Efron 1987)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from checkwise.extras import naming_extras

FloatArray = NDArray[np.float64]


@naming_extras()
def bca_ends(values: FloatArray, means: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Ends for the mean of every column of ``values`` [n, K], given its resampled ``means`` [B, K].

    z₀ is the normal score of the share of resampled means below the observed one; the acceleration
    is that of the jackknife, which for a mean has a closed form. A column without spread has the
    same number at both ends.
    """
    from scipy.special import ndtr, ndtri

    observed = values.mean(axis=0)
    # A resample with every run once has the observed mean, whatever the order of summation says.
    tie = 1e-12 * np.abs(values).max(axis=0)
    below = ((means < observed - tie).sum(axis=0) + (means <= observed + tie).sum(axis=0)) / (
        2 * len(means)
    )
    centred = values - observed
    spread = (centred**2).sum(axis=0)
    constant = np.ptp(values, axis=0) == 0
    spread = np.where(constant, 1.0, spread)
    acceleration = (centred**3).sum(axis=0) / (6 * spread**1.5)
    bias = ndtri(np.where(constant, 0.5, below))
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    scores = bias + ndtri(tails)[:, None]
    shares = ndtr(bias + scores / (1 - acceleration * scores))
    ends = np.array(
        [
            [observed[k]] * 2 if constant[k] else np.percentile(means[:, k], 100 * shares[:, k])
            for k in range(values.shape[1])
        ]
    )
    return ends[:, 0], ends[:, 1]
