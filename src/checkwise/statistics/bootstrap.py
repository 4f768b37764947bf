"""Bootstrap intervals of a mean: percentile, and bias-corrected and accelerated (BCa).

Rows are drawn once for each number of rows and remembered, so all intervals of a table share them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError, naming_extras
from checkwise.metrics import summable

FloatArray = NDArray[np.float64]
Drawn = NDArray[Any]
Method = Literal["percentile", "bca"]

RESAMPLES = 10_000
SEED = 20260908
LEVEL = 0.95

_DRAWN_AT_ONCE = 2_000_000
_REMEMBERED = 8_000_000  # entries of one set of draws, 16 MB


def bootstrap_interval(
    values: FloatArray,
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    method: Method = "percentile",
) -> tuple[FloatArray, FloatArray]:
    """Lower and upper ends for the mean of every column of ``values`` [n, K].

    Whole rows are resampled, so columns stay paired. With a single row both ends are nan. The
    method is "percentile", or "bca" to correct for bias and skewness.

    Example:
        >>> low, high = bootstrap_interval(np.array([[1.0], [2.0], [3.0]]))
        >>> low.round(2), high.round(2)
        (array([1.]), array([3.]))
    """
    table = finite_table(values)
    check_draws(level=level, resamples=resamples)
    if method not in ("percentile", "bca"):
        raise InputError(f"Expected `method` 'percentile' or 'bca', but got {method!r}.")
    if len(table) < 2 or not table.shape[1]:
        nothing = np.full(table.shape[1], np.nan)
        return nothing, nothing
    means = resampled_means(table, resamples=resamples, seed=seed)
    if method == "bca":
        return _bca_ends(table, means, level)
    tail = 100 * (1 - level) / 2
    low, high = np.percentile(means, [tail, 100 - tail], axis=0)
    return low, high


def finite_table(values: FloatArray) -> FloatArray:
    """``values`` as an array [runs, columns] of finite numbers."""
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or not np.isfinite(table).all():
        raise InputError(
            f"Expected finite values of shape (runs, columns), but got shape {table.shape} with "
            f"{int((~np.isfinite(table)).sum())} values that are not finite: leave such runs out."
        )
    return table


def check_draws(*, level: float = LEVEL, resamples: int = RESAMPLES) -> None:
    """Refuse a level or a number of resamples that gives no interval."""
    if not 0 < level < 1:
        raise InputError(f"Expected a `level` strictly between 0 and 1, but got {level}.")
    if resamples < 1:
        raise InputError(f"Expected at least one resample, but got {resamples}.")


def resampled_means(
    table: FloatArray, *, resamples: int = RESAMPLES, seed: int = SEED
) -> FloatArray:
    """The mean of every column in every resample, [resamples, K]."""
    n = len(table)
    table = summable(table, n)
    sums = [counts.astype(np.float64) @ table for counts in draws(n, resamples, seed)]
    return np.asarray(np.concatenate(sums) / n)


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


def draws(n: int, resamples: int = RESAMPLES, seed: int = SEED) -> Iterator[Drawn]:
    """How often every row is in every resample, [resamples, n], in chunks of whole resamples.

    The rows are ``default_rng(seed).integers(0, n, (resamples, n))``, whatever the size of chunks.
    """
    check_draws(resamples=resamples)
    if n * resamples <= _REMEMBERED:
        yield from _remembered(n, resamples, seed)
    else:
        yield from _drawn(n, resamples, seed)


@lru_cache(maxsize=12)
def _remembered(n: int, resamples: int, seed: int) -> tuple[Drawn, ...]:
    return tuple(_drawn(n, resamples, seed))


def _drawn(n: int, resamples: int, seed: int) -> Iterator[Drawn]:
    random = np.random.default_rng(seed)
    at_once = max(1, _DRAWN_AT_ONCE // n)
    for start in range(0, resamples, at_once):
        count = min(at_once, resamples - start)
        # 32-bit draws take the same numbers from the generator as 64-bit ones, and less time.
        rows = random.integers(0, n, (count, n), dtype=np.int32) + n * np.arange(count)[:, None]
        times = np.bincount(rows.ravel(), minlength=count * n).reshape(count, n)
        yield times.astype(np.uint16)


@naming_extras()
def _bca_ends(values: FloatArray, means: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """BCa ends for the mean of every column of ``values`` [n, K], from resampled ``means`` [B, K].

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
