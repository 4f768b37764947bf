"""Percentile intervals of means over runs.

A resample is a vector of counts: how often each run was drawn. Drawn once, the counts give the
resampled mean of every column as one matrix product.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError

FloatArray = NDArray[np.float64]

RESAMPLES = 10_000
SEED = 20260908
LEVEL = 0.95

_ENTRIES = 2_000_000  # of the count matrix held at a time


def percentile_interval(
    values: FloatArray, *, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = SEED
) -> tuple[FloatArray, FloatArray]:
    """Lower and upper ends for the mean of every column of ``values`` [n, K].

    Rows are resampled whole, so columns stay paired. One row says nothing about spread: both ends
    are nan.

    Example:
        >>> low, high = percentile_interval(np.array([[1.0], [2.0], [3.0]]))
        >>> low.round(2), high.round(2)
        (array([1.]), array([3.]))
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or not np.isfinite(table).all():
        raise InputError(
            f"Expected finite values of shape (runs, columns), but got shape {table.shape} with "
            f"{int((~np.isfinite(table)).sum())} values that are not finite: leave such runs out."
        )
    if not 0 < level < 1:
        raise InputError(f"Expected a level strictly between 0 and 1, but got {level}.")
    if len(table) < 2:
        nothing = np.full(table.shape[1], np.nan)
        return nothing, nothing
    means = np.concatenate(
        [counts @ table / len(table) for counts in draws(len(table), resamples, seed)]
    )
    tail = 100 * (1 - level) / 2
    low, high = np.percentile(means, [tail, 100 - tail], axis=0)
    return low, high


def draws(n: int, resamples: int = RESAMPLES, seed: int = SEED) -> Iterator[FloatArray]:
    """Blocks of the count matrix [resamples, n]: row b counts the runs of resample b.

    The stream of random numbers does not depend on the size of the blocks.
    """
    if resamples < 1:
        raise InputError(f"Expected at least one resample, but got {resamples}.")
    random = np.random.default_rng(seed)
    rows = max(1, _ENTRIES // n)
    for start in range(0, resamples, rows):
        b = min(rows, resamples - start)
        drawn = random.integers(0, n, (b, n)) + n * np.arange(b)[:, None]
        yield np.bincount(drawn.ravel(), minlength=b * n).reshape(b, n).astype(np.float64)
