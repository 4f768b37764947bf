"""Means over examples that come in groups: whole groups are resampled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from checkwise.statistics.bootstrap import RESAMPLES, SEED, FloatArray, resampled_means


def resampled_group_means(
    values: FloatArray,
    groups: NDArray[np.int64],
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> FloatArray:
    """The mean over examples of every column of ``values`` [n, K] in every resample, [B, K].

    As many groups are drawn as there are. Groups differ in size, so the number of examples varies
    from draw to draw: sums are divided by the number of that draw.

    Example:
        >>> values = np.array([[1.0], [1.0], [0.0]])
        >>> drawn = resampled_group_means(values, np.array([4, 4, 9]), resamples=200)
        >>> sorted(set(drawn[:, 0].round(3).tolist()))
        [0.0, 0.667, 1.0]
    """
    names, member = np.unique(groups, return_inverse=True)
    totals = np.zeros((len(names), values.shape[1] + 1))
    np.add.at(totals, member.reshape(-1), np.column_stack([values, np.ones(len(values))]))
    means = resampled_means(totals, resamples=resamples, seed=seed)
    return np.asarray(means[:, :-1] / means[:, -1:])
