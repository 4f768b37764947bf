"""Bootstrap intervals of a mean: percentile and bias-corrected (BCa).

The draws of a size are made once and remembered, so every interval of a table shares them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.extras import naming_extras

FloatArray = NDArray[np.float64]
Drawn = NDArray[Any]
Method = Literal["percentile", "bca"]

RESAMPLES = 10_000
SEED = 20260908
LEVEL = 0.95

_ENTRIES = 2_000_000  # drawn at a time
_KEPT = 8_000_000  # drawn entries that are remembered, 16 MB


def bootstrap_interval(
    values: FloatArray,
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    method: Method = "percentile",
) -> tuple[FloatArray, FloatArray]:
    """Lower and upper ends for the mean of every column of ``values`` [n, K].

    Rows are resampled whole, so columns stay paired. One row says nothing about spread: both ends
    are nan.

    Args:
        values: one row per run.
        level, resamples, seed: of the interval.
        method: "percentile", or "bca" to correct for bias and skewness.

    Example:
        >>> low, high = bootstrap_interval(np.array([[1.0], [2.0], [3.0]]))
        >>> low.round(2), high.round(2)
        (array([1.]), array([3.]))
    """
    table = checked(values)
    check_draws(level=level, resamples=resamples)
    if method not in ("percentile", "bca"):
        raise InputError(f"Expected the method 'percentile' or 'bca', but got {method!r}.")
    if len(table) < 2 or not table.shape[1]:
        nothing = np.full(table.shape[1], np.nan)
        return nothing, nothing
    means = resampled_means(table, resamples=resamples, seed=seed)
    if method == "bca":
        return bca_ends(table, means, level)
    tail = 100 * (1 - level) / 2
    low, high = np.percentile(means, [tail, 100 - tail], axis=0)
    return low, high


def percentile_interval(
    values: FloatArray, *, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = SEED
) -> tuple[FloatArray, FloatArray]:
    """:func:`bootstrap_interval` by percentiles."""
    return bootstrap_interval(values, level=level, resamples=resamples, seed=seed)


def check_draws(*, level: float = LEVEL, resamples: int = RESAMPLES) -> None:
    """Refuse what no interval can be made with."""
    if not 0 < level < 1:
        raise InputError(f"Expected a level strictly between 0 and 1, but got {level}.")
    if resamples < 1:
        raise InputError(f"Expected at least one resample, but got {resamples}.")


def checked(values: FloatArray) -> FloatArray:
    """Values as [runs, columns] of finite numbers."""
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or not np.isfinite(table).all():
        raise InputError(
            f"Expected finite values of shape (runs, columns), but got shape {table.shape} with "
            f"{int((~np.isfinite(table)).sum())} values that are not finite: leave such runs out."
        )
    return table


def resampled_means(
    table: FloatArray, *, resamples: int = RESAMPLES, seed: int = SEED
) -> FloatArray:
    """The mean of every column in every resample, [resamples, K]."""
    from checkwise.statistics.resampling import resampled_sums

    n = len(table)
    blocks = [resampled_sums(block, table) for block in draws(n, resamples, seed)]
    return np.asarray(np.concatenate(blocks) / n)


def draws(n: int, resamples: int = RESAMPLES, seed: int = SEED) -> Iterator[Drawn]:
    """Blocks of [resamples, n]: row b holds the runs of resample b, numbered from 0.

    They are ``default_rng(seed).integers(0, n, (resamples, n))``, whatever the size of the blocks.
    """
    check_draws(resamples=resamples)
    if n * resamples <= _KEPT:
        yield _remembered(n, resamples, seed)
    else:
        yield from _drawn(n, resamples, seed)


@lru_cache(maxsize=12)
def _remembered(n: int, resamples: int, seed: int) -> Drawn:
    whole = np.concatenate(list(_drawn(n, resamples, seed)))
    whole.setflags(write=False)
    return whole


def forget_draws() -> None:
    """Free the remembered draws; they are drawn again, the same, when next needed."""
    _remembered.cache_clear()


def _drawn(n: int, resamples: int, seed: int) -> Iterator[Drawn]:
    random = np.random.default_rng(seed)
    rows = max(1, _ENTRIES // n)
    small = np.uint16 if n <= 2**16 else np.int32
    for start in range(0, resamples, rows):
        b = min(rows, resamples - start)
        # 32-bit draws take the same numbers from the generator as 64-bit ones, and less time.
        yield random.integers(0, n, (b, n), dtype=np.int32).astype(small)


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
