"""Learn then test: order checkpoints on one half of the examples, test them on the other half."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from checkwise.errors import InputError
from checkwise.metrics.settings import error_level, number
from checkwise.statistics.bootstrap import SEED
from checkwise.statistics.paired.betting import LARGEST
from checkwise.statistics.paired.conditions import conditions_of
from checkwise.statistics.paired.sample import BoolArray, FloatArray, IntArray, Stratified, Units


@dataclass(frozen=True, eq=False)
class Tested:
    """Which checkpoints are shown to be within a tolerance of the best one.

    Args:
        order: [T] the order in which checkpoints were tested, best first on the first half.
        p: [T] p-values on the second half of "worse than the best by more than the tolerance".
        shown: [T] tested at level α in that order, up to the first that fails.
        alpha: probability that any of those shown is not within the tolerance.
        conditions: what has to hold.
    """

    order: IntArray
    p: FloatArray
    shown: BoolArray
    alpha: float
    conditions: tuple[str, ...]


def learn_then_test(sample: Stratified, *, delta: float, alpha: float, seed: int = SEED) -> Tested:
    """Show checkpoints to be within ``delta`` of the best, by a fixed sequence of tests.

    The first half of the units of every domain orders the checkpoints and sets the stakes; the
    second half tests them. A checkpoint passes if it is shown against every other one; the best one
    is among these whatever the sample, so neither these tests nor the sequence share α.

    Args:
        sample: values from 0 to 1.
        delta: the tolerance, a fraction of 1.
        alpha: probability that any checkpoint is wrongly shown.
        seed: how units are split into halves.
    """
    delta = number(delta, "delta", least=0, below=1)
    alpha = error_level(alpha)
    sample.check_range()
    first, second = _halves(sample, seed)
    order = np.argsort(-_mean(sample, first), kind="stable")
    log_wealth = _log_wealth(sample, first, second, delta, log(1 / alpha))
    np.fill_diagonal(log_wealth, np.inf)
    p = np.exp(-np.maximum(log_wealth.min(axis=1), 0.0))
    passed = np.logical_and.accumulate(p[order] <= alpha)
    shown = np.zeros(len(sample), dtype=bool)
    shown[order] = passed
    return Tested(
        order=order.astype(np.int64),
        p=p,
        shown=shown,
        alpha=alpha,
        conditions=conditions_of("learn-then-test", groups=sample.groups is not None),
    )


def _halves(sample: Stratified, seed: int) -> tuple[list[Units], list[Units]]:
    random = np.random.default_rng(seed)
    first, second = [], []
    for e, units in enumerate(sample.units):
        if units.count < 2:
            raise InputError(
                "Expected at least two independent validation examples or groups in every domain, "
                f"but domain {e} (counted from 0) has one: it cannot be split into halves.",
                code="unsupported",
            )
        shuffled = random.permutation(units.count)
        first.append(units.among(shuffled[: units.count // 2]))
        second.append(units.among(shuffled[units.count // 2 :]))
    return first, second


def _mean(sample: Stratified, half: list[Units]) -> FloatArray:
    return np.asarray(sum(w * u.mean for w, u in zip(sample.weights, half, strict=True)))


def _log_wealth(
    sample: Stratified, first: list[Units], second: list[Units], delta: float, aim: float
) -> FloatArray:
    """Log wealth on the second half of "s is worse than t by more than delta", [s, t]."""
    shares = [w / u.examples for w, u in zip(sample.weights, second, strict=True)]
    largest = 1 / max(share * float(u.sizes.max()) for share, u in zip(shares, second, strict=True))
    T = len(sample)
    result = np.empty((T, T))
    for s in range(T):
        gains = [delta * u.sizes + u.sums[s] - u.sums for u in second]
        squares = sum(
            share**2 * u.count / f.count * ((delta * f.sizes + f.sums[s] - f.sums) ** 2).sum(axis=1)
            for share, f, u in zip(shares, first, second, strict=True)
        )
        spread = np.maximum(squares, 1e-300)
        eta = np.minimum(np.sqrt(2 * aim / spread), LARGEST * largest)
        result[s] = sum(
            np.log1p((eta * share)[:, None] * gain).sum(axis=1)
            for share, gain in zip(shares, gains, strict=True)
        )
    return result
