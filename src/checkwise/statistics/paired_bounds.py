"""How far checkpoints are below the best one, by the validation examples that they share.

A bound or a verdict follows from betting: the wealth of a bet on one checkpoint against another has
an expectation of at most 1 at any number of examples, whatever their distribution, so it seldom
becomes large where the bet is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi

import numpy as np

from checkwise.errors import InputError
from checkwise.metrics import error_level, number, whole
from checkwise.statistics.paired_sample import BoolArray, FloatArray, Stratified

_EXAMPLES = (
    "validation examples are independent draws from their domain, and domains are independent"
)
_GROUPS = (
    "groups of validation examples are independent of each other, and domains are independent; the "
    "statement is about accuracy on new groups of the same sizes"
)
_WEIGHTS = "domain weights were fixed before looking at the validation results"
_CHECKPOINTS = (
    "the checkpoints do not depend on the validation examples (tuning on them, or feedback that "
    "changes training, voids it; stopping early within the planned number of records does not)"
)

# The smallest stake is the best one where checkpoints disagree on everything and the wealth has to
# reach exp(8), about T/α for T = 150 and α = 0.05; the stakes double from there.
_EXPONENT = 8.0
_LARGEST = 0.8  # of the stake that could lose everything on one unit


@dataclass(frozen=True, eq=False)
class Regret:
    """How far each checkpoint may be below the best one, all at once."""

    upper: FloatArray  # [T] of max_t′ A(t′) − A(t), for every t at once with probability 1 − α
    conditions: tuple[str, ...]  # what has to hold


def regret(sample: Stratified, *, alpha: float, evaluated: int | None = None) -> Regret:
    """Upper bounds on how far every checkpoint's population mean is below the best one.

    The largest of the one-sided bounds on A(t′) − A(t) over t′, each at level α/T. The best
    checkpoint t′ is one and the same whatever the sample, so only the T choices of t share α. The
    bounds hold for all t at once, and so for one that was chosen on the same examples.

    Args:
        sample: values from 0 to 1.
        alpha: probability that any bound fails.
        evaluated: how many checkpoints there were, if some of them are not in the sample. Which
            ones remain may depend on the examples, so that every pair then gets a share of α.

    Example:
        >>> sample = Stratified(([[1] * 90 + [0] * 10, [1] * 89 + [0] * 11],), [1.0])
        >>> regret(sample, alpha=0.05).upper.round(3)
        array([0.046, 0.073])
    """
    return _largest_bounds([sample], sample, alpha, evaluated)


def regret_of_worst_domain(
    sample: Stratified, *, alpha: float, evaluated: int | None = None
) -> Regret:
    """:func:`regret` for the accuracy of the worst domain instead of the weighted mean.

    The worst domain of t is one and the same whatever the sample, and there the best checkpoint is
    at least as good as its own worst domain: the largest bound of any domain covers it.
    """
    groups = sample.groups or (None,) * len(sample.values)
    domains = [
        Stratified((values,), np.ones(1), None if of is None else (of,))
        for values, of in zip(sample.values, groups, strict=True)
    ]
    return _largest_bounds(domains, sample, alpha, evaluated)


def _largest_bounds(
    means: list[Stratified], sample: Stratified, alpha: float, evaluated: int | None
) -> Regret:
    """The largest bound against any checkpoint and in any of the means."""
    alpha = error_level(alpha)
    sample.check_range()
    shares = len(sample)  # among how many bounds α is shared
    if evaluated is not None and evaluated != shares:
        most = whole(evaluated, "evaluated", least=shares)
        shares = most * (most - 1)
    upper = np.max([_upper_bounds(mean, alpha / shares) for mean in means], axis=0)
    np.fill_diagonal(upper, 0.0)
    units = _EXAMPLES if sample.groups is None else _GROUPS
    return Regret(upper.max(axis=0), (units, _WEIGHTS, _CHECKPOINTS))


def not_shown_worse(
    sample: Stratified,
    *,
    delta: float,
    alpha: float,
    evaluated: int | None = None,
    growing: bool = False,
) -> BoolArray:
    """Checkpoints that are not shown to be worse than another one by more than ``delta``, [T].

    With probability at least 1 − α every checkpoint that is left out is worse than the best by more
    than ``delta``. Nothing is promised about the members: with few examples all of them stay. The
    best measured checkpoints always stay, as their wealth against any other is at most 1.

    Args:
        sample: values from 0 to 1, checkpoints in the order they were recorded.
        delta: the tolerance, a fraction of 1.
        alpha: probability that any checkpoint is left out wrongly.
        evaluated: how many checkpoints share α equally, if some of them are not in the sample.
        growing: share α as 6α/(π²k²) at the k-th record, for a number that is not known; what is
            left out stays out.
    """
    delta = number(delta, "delta", least=0)
    alpha = error_level(alpha)
    sample.check_range()
    T = len(sample)
    if T == 1:
        return np.ones(1, dtype=bool)
    # The mean of wealths at level 1/α, each with its share: many similar checkpoints that are all
    # better than t add up, where a union bound would pay for every one of them.
    shares = _pair_shares(T, evaluated, growing)
    log_shares = np.log(shares, out=np.full((T, T), -np.inf), where=shares > 0)
    by_stake = _log_wealth(sample, delta)
    wealth = np.logaddexp.reduce(by_stake, axis=0) - log(len(by_stake)) + log_shares
    return np.asarray(np.logaddexp.reduce(wealth, axis=0) < log(1 / alpha))


def _pair_shares(T: int, evaluated: int | None, growing: bool) -> FloatArray:
    """The share of α of every pair of checkpoints, [T, T]; 0 where none is compared."""
    if growing:
        k = np.maximum.outer(np.arange(1, T + 1), np.arange(1, T + 1)).astype(np.float64)
        shares = np.asarray(6 / (pi**2 * k**2) / (2 * np.maximum(k - 1, 1)))
    else:
        most = T if evaluated is None else whole(evaluated, "evaluated", least=T)
        shares = np.full((T, T), 1 / (most * max(most - 1, 1)))
    np.fill_diagonal(shares, 0.0)
    return shares


def stakes(sample: Stratified, offset: float = 0.0) -> FloatArray:
    """The stakes η that are averaged, [K]; they depend on sizes and weights alone."""
    size = [sizes.max() * (1 + offset) for sizes in sample.unit_sizes]
    per_example = sample.weights / sample.counts
    largest = _LARGEST / float((per_example * size).max())
    spread = sum(
        float(share**2 * (sizes**2).sum())
        for share, sizes in zip(per_example, sample.unit_sizes, strict=True)
    )
    smallest = np.sqrt(2 * _EXPONENT / spread)
    if smallest >= largest:
        return np.array([largest])
    doublings = int(np.ceil(np.log2(largest / smallest)))
    return np.asarray(largest * 2.0 ** -np.arange(doublings + 1))


def _upper_bounds(sample: Stratified, alpha: float) -> FloatArray:
    """Upper bounds on A(s) − A(t) at level ``alpha`` each, [s, t].

    They solve mean_k exp(η_k·Δ)·wealth_k = 1/α for the wealth that bets on t against s.
    """
    eta = stakes(sample)[:, None, None]
    against = np.swapaxes(_log_wealth(sample, 0.0), 1, 2) - log(len(eta))
    aim = log(1 / alpha)
    # The smallest bound of one stake alone is above the solution. Newton's steps go down to it, as
    # the logarithm of a sum of exponentials is convex and increasing.
    bound = ((aim - against) / eta).min(axis=0)
    for _ in range(60):
        terms = against + eta * bound
        value = np.logaddexp.reduce(terms, axis=0)
        slope = (np.exp(terms - value) * eta).sum(axis=0)
        step = (value - aim) / slope
        bound = bound - step
        if float(np.abs(step).max()) < 1e-13:
            break
    return np.asarray(np.minimum(bound + 1e-12, 1.0))


def _log_wealth(sample: Stratified, offset: float) -> FloatArray:
    """Σ_e Σ_g log(1 + λ_e·(D_eg − offset·m_g)) with D of s minus t, by stake, [K, s, t]."""
    if offset >= 1:
        raise InputError(f"Expected a tolerance below 1 (100 points), but got {offset:g}.")
    eta = stakes(sample, offset)
    total = np.zeros((len(eta), len(sample), len(sample)))
    for e, weight in enumerate(sample.weights.tolist()):
        if weight == 0:
            continue
        rate = eta * weight / sample.counts[e]
        if sample.binary and sample.groups is None:
            total += _binary(sample.joint(e), int(sample.counts[e]), rate, offset)
        else:
            units = sample.units[e]
            for t, mine in enumerate(units.sums):
                gained = units.sums - mine - offset * units.sizes
                for k, one in enumerate(rate.tolist()):
                    total[k, :, t] += np.log1p(one * gained).sum(axis=1)
    return total


def _binary(both: FloatArray, n: int, rate: FloatArray, offset: float) -> FloatArray:
    """The same from how many of n examples both s and t get right, [s, t]."""
    right = np.diag(both)
    only_s, only_t = right[:, None] - both, right[None, :] - both
    same = n - only_s - only_t
    won, lost, kept = (np.log1p(rate * (d - offset))[:, None, None] for d in (1.0, -1.0, 0.0))
    return np.asarray(won * only_s + lost * only_t + kept * same)
