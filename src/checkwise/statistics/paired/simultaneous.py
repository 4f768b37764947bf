"""Simultaneous intervals of differences between checkpoints, by a max-t bootstrap (asymptotic)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

import numpy as np

from checkwise.metrics.settings import error_level, whole
from checkwise.statistics.bootstrap import RESAMPLES, SEED
from checkwise.statistics.paired.conditions import conditions_of
from checkwise.statistics.paired.sample import FloatArray, Stratified

_COUNTED_AT_ONCE = 4_000_000


@dataclass(frozen=True, eq=False)
class Differences:
    """Differences of all checkpoints to a reference, with intervals that hold at once.

    Args:
        reference: index of the checkpoint that is subtracted.
        estimate, error, lower, upper: [T] differences, standard errors and ends.
        critical: how many standard errors the intervals reach.
        alpha: approximate probability that any interval misses.
        conditions: what has to hold.
    """

    reference: int
    estimate: FloatArray
    error: FloatArray
    lower: FloatArray
    upper: FloatArray
    critical: float
    alpha: float
    conditions: tuple[str, ...]


def max_t(
    sample: Stratified,
    *,
    reference: int,
    alpha: float,
    draws: int = RESAMPLES,
    seed: int = SEED,
    fixed_reference: bool = False,
) -> Differences:
    """Intervals of A(t) − A(reference) for all t at once; values may be any real numbers.

    Independent units are resampled within domains. The critical value is the 1 − α quantile of the
    largest |difference|/error of any pair, so the reference may have been chosen on the same
    examples. Errors of right and wrong answers count one more unit that disagrees: two checkpoints
    that agree on every example here need not agree on all others.

    Args:
        sample: the values.
        reference: index of the checkpoint to compare with.
        alpha: approximate probability that any interval misses.
        draws, seed: how many resamples are drawn, and from which seed.
        fixed_reference: the reference was named before looking at these examples; only pairs with
            it then share α, and the intervals are narrower.
    """
    alpha = error_level(alpha)
    whole(draws, "draws", least=1)
    T = len(sample)
    whole(reference, "reference", least=0, most=T - 1)
    errors = _errors(sample)
    rows = [reference] if fixed_reference else range(T)
    largest = np.concatenate(
        [_largest(moved, errors, rows) for moved in deviations(sample, draws=draws, seed=seed)]
    )
    rank = min(draws, ceil((draws + 1) * (1 - alpha)))
    critical = float(np.sort(largest)[rank - 1])
    estimate = sample.mean - sample.mean[reference]
    error = errors[reference]
    return Differences(
        reference=reference,
        estimate=estimate,
        error=error,
        lower=estimate - critical * error,
        upper=estimate + critical * error,
        critical=critical,
        alpha=alpha,
        conditions=conditions_of("max-t", groups=sample.groups is not None),
    )


def deviations(sample: Stratified, *, draws: int, seed: int) -> Iterator[FloatArray]:
    """How far resampled means are from the measured ones, [draws, T], in chunks.

    Units are drawn with replacement within domains; each domain's deviations are stretched by
    √(G/(G−1)), so that their variance is the unbiased one.
    """
    sample.check_spread()
    random = np.random.default_rng(seed)
    largest = max(moved.shape[1] for moved in sample.influence)
    at_once = max(1, _COUNTED_AT_ONCE // largest)
    for start in range(0, draws, at_once):
        count = min(at_once, draws - start)
        total = np.zeros((count, len(sample)))
        for moved, weight in zip(sample.influence, sample.weights, strict=True):
            G = moved.shape[1]
            drawn = random.integers(0, G, (count, G))
            if weight > 0:
                total += np.sqrt(G / (G - 1)) * (_counted(drawn, G) @ moved.T)
        yield total


def _errors(sample: Stratified) -> FloatArray:
    """Standard errors of all differences, [T, T]; 0 for a checkpoint against itself."""
    errors = sample.difference_errors
    if sample.binary:
        one_more = sum(
            float((weight / units.examples) ** 2 * (units.sizes**2).mean())
            for weight, units in zip(sample.weights, sample.units, strict=True)
        )
        errors = np.sqrt(errors**2 + one_more)
        np.fill_diagonal(errors, 0.0)
    return errors


def _counted(drawn: np.ndarray, units: int) -> FloatArray:
    """How often each unit was drawn, [draws, units]."""
    flat = drawn + units * np.arange(len(drawn))[:, None]
    counts = np.bincount(flat.ravel(), minlength=len(drawn) * units)
    return counts.reshape(len(drawn), units).astype(np.float64)


def _largest(moved: FloatArray, errors: FloatArray, rows: range | list[int]) -> FloatArray:
    """The largest |difference|/error in every draw, [draws]."""
    largest = np.zeros(len(moved))
    for t in rows:
        there = errors[t] > 0
        if there.any():
            scores = np.abs(moved[:, there] - moved[:, [t]]) / errors[t][there]
            np.maximum(largest, scores.max(axis=1), out=largest)
    return largest
