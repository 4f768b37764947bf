"""The model confidence set of Hansen, Lunde and Nason (2011), stratified by domain (asymptotic)."""

from __future__ import annotations

from typing import Final

import numpy as np

from checkwise.metrics.settings import error_level, whole
from checkwise.statistics.bootstrap import RESAMPLES, SEED
from checkwise.statistics.paired.sample import BoolArray, FloatArray, Stratified, pair_errors
from checkwise.statistics.paired.simultaneous import deviations

QUICK_DRAWS: Final = 1000


def confidence_set(
    sample: Stratified, *, alpha: float, draws: int = RESAMPLES, seed: int = SEED
) -> BoolArray:
    """Checkpoints that cannot be distinguished from the best one, [T].

    With probability about 1 − α the checkpoint with the best population mean is a member; nothing
    is promised about the other members. Values may be any real numbers.

    Args:
        sample: the values, higher is better.
        alpha: approximate probability that the best checkpoint is left out.
        draws, seed: how many resamples of units within domains are drawn, and from which seed.
    """
    alpha = error_level(alpha)
    whole(draws, "draws", least=1)
    if len(sample) == 1:
        return np.ones(1, dtype=bool)
    moved = np.concatenate(list(deviations(sample, draws=draws, seed=seed)))
    return np.asarray((elimination_p_values(sample.mean, moved) > alpha) | sample.best)


def quick_confidence_set(
    sample: Stratified, *, alpha: float, draws: int = QUICK_DRAWS, seed: int = SEED
) -> BoolArray:
    """:func:`confidence_set` with deviations from the normal distribution of the same covariance.

    Resampled means are close to that distribution, and drawing from it takes a thousandth of the
    time. It serves where the set of many samples is asked for.
    """
    alpha = error_level(alpha)
    if len(sample) == 1:
        return np.ones(1, dtype=bool)
    values, vectors = np.linalg.eigh(sample.covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    moved = np.random.default_rng(seed).standard_normal((draws, len(sample))) @ root.T
    return np.asarray((elimination_p_values(sample.mean, moved) > alpha) | sample.best)


def elimination_p_values(mean: FloatArray, moved: FloatArray) -> FloatArray:
    """The largest α at which every checkpoint stays, [T], from resampled deviations [draws, T].

    Checkpoints leave one by one: the one with the largest standardised shortfall to any other goes
    first. Equality of those that are left is tested by the largest standardised difference of any
    pair (the range statistic); a p-value is at least that of every checkpoint that left before.
    """
    draws, T = moved.shape
    errors = pair_errors(moved.T @ moved / draws)
    scale = np.where(errors > 0, errors, np.inf)
    shortfall = (mean[None, :] - mean[:, None]) / scale
    order, observed = _departures(shortfall)
    # The draws' range statistic of those left is a running maximum if they come back in reverse.
    p = np.ones(T)
    largest = np.zeros(draws)
    ordered, apart = np.ascontiguousarray(moved.T[order]), scale[np.ix_(order, order)]
    for left in range(T - 2, -1, -1):
        scores = np.abs(ordered[left + 1 :] - ordered[left])
        scores /= apart[left, left + 1 :, None]
        np.maximum(largest, scores.max(axis=0), out=largest)
        p[order[left]] = (largest >= observed[left]).mean()
    p[order] = np.maximum.accumulate(p[order])
    return p


def _departures(shortfall: FloatArray) -> tuple[list[int], list[float]]:
    """In which order checkpoints leave, and the largest standardised difference at each time."""
    left = list(range(len(shortfall)))
    order: list[int] = []
    observed: list[float] = []
    while len(left) > 1:
        worst = shortfall[np.ix_(left, left)].max(axis=1)
        goes = int(worst.argmax())
        observed.append(float(worst[goes]))
        order.append(left.pop(goes))
    return [*order, *left], observed
