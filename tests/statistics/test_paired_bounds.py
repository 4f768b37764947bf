"""Bounds on differences between checkpoints: against literal versions and exact enumeration."""

from __future__ import annotations

from itertools import product
from math import exp, log, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import multinomial

from checkwise.statistics import (
    Stratified,
    not_shown_worse,
    regret,
    regret_of_worst_domain,
)
from checkwise.statistics.paired_bounds import stakes
from tests.refusals import refused
from tests.statistics.paired_samples import drawn

SHARES = [0.2, 0.3, 0.5]


def wealth(sample: Stratified, s: int, t: int, eta: float, offset: float = 0.0) -> float:
    """Π (1 + η·w/n·(difference of a group − offset·its size)), one group after another."""
    total = 1.0
    for e, values in enumerate(sample.values):
        n = values.shape[1]
        of = range(n) if sample.groups is None else sample.groups[e].tolist()
        for group in sorted(set(of)):
            members = [i for i, g in enumerate(of) if g == group]
            gained = sum(values[s, i] - values[t, i] - offset for i in members)
            total *= 1 + eta * sample.weights[e] / n * gained
    return total


@pytest.mark.parametrize("groups", [None, 7])
@pytest.mark.parametrize("binary", [True, False])
def test_the_regret_solves_its_equation(groups: int | None, binary: bool) -> None:
    sample = drawn(1, [0.7, 0.75, 0.6], [20, 25, 30], weights=SHARES, groups=groups)
    if not binary:
        values = tuple(0.5 + 0.4 * (v - 0.5) for v in sample.values)
        sample = Stratified(values, sample.weights, sample.groups)
    upper = regret(sample, alpha=0.1).upper
    eta = stakes(sample)

    def bound(s: int, t: int) -> float:
        def excess(d: float) -> float:
            return float(np.mean([exp(k * d) * wealth(sample, t, s, k) for k in eta])) - 3 / 0.1

        return float(brentq(excess, -2, 5, xtol=1e-14))

    literal = [max(bound(s, t) for s in range(3) if s != t) for t in range(3)]
    np.testing.assert_allclose(upper, np.minimum(literal, 1.0), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("growing", [False, True])
@pytest.mark.parametrize("groups", [None, 40])
def test_what_is_left_out_by_the_definition(growing: bool, groups: int | None) -> None:
    accuracy = [0.5, 0.9, 0.7, 0.92, 0.88]
    sample = drawn(2, accuracy, [60, 70, 90], weights=SHARES, groups=groups)
    mask = not_shown_worse(sample, delta=0.02, alpha=0.05, growing=growing)
    eta = stakes(sample, 0.02)
    for t in range(5):
        total = 0.0
        for s in range(5):
            if s == t:
                continue
            k = max(s, t) + 1
            share = 6 / np.pi**2 / k**2 / (2 * (k - 1)) if growing else 1 / 20
            total += share * float(np.mean([wealth(sample, s, t, one, 0.02) for one in eta]))
        assert mask[t] == (total < 1 / 0.05)
    assert not mask[0]
    assert mask[3]


@pytest.mark.parametrize("chances", [(0.1, 0.1, 0.3, 0.05), (0.0, 0.4, 0.2, 0.2), (0.3, 0, 0, 0.3)])
def test_the_expected_wealth_is_at_most_one(chances: tuple[float, ...]) -> None:
    """Every outcome of two domains with 3 and 2 examples, weighed by its probability."""
    (win_a, lose_a, win_b, lose_b) = chances
    weights = np.array([0.6, 0.4])
    truth = 0.6 * (win_a - lose_a) + 0.4 * (win_b - lose_b)
    right = {1: (1, 0), 0: (1, 1), -1: (0, 1)}
    chance_a = {1: win_a, -1: lose_a, 0: 1 - win_a - lose_a}
    chance_b = {1: win_b, -1: lose_b, 0: 1 - win_b - lose_b}
    expected = failing = 0.0
    for a in product((1, 0, -1), repeat=3):
        for b in product((1, 0, -1), repeat=2):
            chance = prod(chance_a[d] for d in a) * prod(chance_b[d] for d in b)
            values = tuple(np.array([right[d] for d in one]).T for one in (a, b))
            sample = Stratified(values, weights)
            eta = stakes(sample)
            expected += chance * float(
                np.mean([exp(-k * truth) * wealth(sample, 0, 1, k) for k in eta])
            )
            # The bound on A(1) − A(0), without a union: the regret of 0 at level α/2.
            failing += chance * (-truth > regret(sample, alpha=0.8).upper[0])
    assert expected <= 1 + 1e-12
    assert failing <= 0.4


def test_the_probability_that_a_bound_fails_by_exact_summation() -> None:
    """All outcomes of 40 examples, for many chances of the two checkpoints to be right alone."""
    n, alpha = 40, 0.2
    outcomes, upper = [], []
    for wins in range(n + 1):
        for losses in range(n + 1 - wins):
            same = n - wins - losses
            first = [0] * wins + [1] * losses + [1] * same
            second = [1] * wins + [0] * losses + [1] * same
            outcomes.append((wins, losses, same))
            # The bound on A(1) − A(0), at level α/2 of two checkpoints.
            upper.append(regret(Stratified(([first, second],), [1.0]), alpha=alpha).upper[0])
    worst = shrunk = 0.0
    for win in np.linspace(0.01, 0.6, 25):
        for lose in (0.001, 0.02, 0.1, 0.3):
            chance = multinomial.pmf(outcomes, n, [win, lose, 1 - win - lose])
            worst = max(worst, float(chance[np.array(upper) < win - lose].sum()))
            shrunk = max(shrunk, float(chance[0.6 * np.array(upper) < win - lose].sum()))
    assert 0.005 < worst <= alpha / 2
    assert shrunk > alpha / 2  # a bound of 60% of the size would be found out


def test_one_stake_by_hand() -> None:
    # One group of all examples: the largest stake is 0.8/10 of ten examples, and no other.
    sample = Stratified(([[1] * 10, [1] * 8 + [0] * 2],), [1.0], ([0] * 10,))
    assert stakes(sample) == pytest.approx([0.8])
    # (log(2/0.1) − log(1 − 0.8/10·2))/0.8, and above 1 means 1
    assert (log(20) - log(1 - 0.16)) / 0.8 > 1
    assert regret(sample, alpha=0.1).upper.tolist() == [1.0, 1.0]


def test_the_worst_domain_takes_the_largest_bound_of_any_domain() -> None:
    sample = drawn(3, [0.6, 0.8, 0.7], [40, 60])
    alone = [Stratified((values,), [1.0]) for values in sample.values]
    expected = np.maximum(*(regret(one, alpha=0.05).upper for one in alone))
    np.testing.assert_allclose(regret_of_worst_domain(sample, alpha=0.05).upper, expected)


def test_checkpoints_that_are_gone_cost_a_share_of_every_pair() -> None:
    sample = drawn(4, [0.6, 0.8], [80])
    gone = regret(sample, alpha=0.05, evaluated=5).upper
    np.testing.assert_allclose(gone, regret(sample, alpha=0.05 * 2 / 20).upper)
    with refused("value: `evaluated` … 2"):
        regret(sample, alpha=0.05, evaluated=1)


samples = st.builds(
    drawn,
    st.integers(0, 10**6),
    st.lists(st.floats(0.05, 0.95), min_size=1, max_size=6),
    st.lists(st.integers(2, 40), min_size=1, max_size=3),
    groups=st.sampled_from([None, 5]),
)


@settings(max_examples=60, deadline=None)
@given(samples, st.floats(0, 0.3), st.floats(0.01, 0.4))
def test_the_best_always_stays_and_levels_and_tolerances_nest(
    sample: Stratified, delta: float, alpha: float
) -> None:
    bounds = regret(sample, alpha=alpha).upper
    assert (bounds >= sample.mean.max() - sample.mean - 1e-9).all()
    assert (bounds >= regret(sample, alpha=min(2 * alpha, 0.9)).upper - 1e-12).all()
    stays = not_shown_worse(sample, delta=delta, alpha=alpha)
    assert stays[sample.mean >= sample.mean.max() - 1e-12].all()
    assert (not_shown_worse(sample, delta=delta, alpha=alpha * 0.5) >= stays).all()


@settings(max_examples=40, deadline=None)
@given(samples, st.integers(0, 1000))
def test_the_order_of_examples_and_domains_does_not_matter(sample: Stratified, seed: int) -> None:
    random = np.random.default_rng(seed)
    E = len(sample.values)
    domains = random.permutation(E)
    rows = [random.permutation(values.shape[1]) for values in sample.values]
    groups = sample.groups
    other = Stratified(
        tuple(sample.values[e][:, rows[e]] for e in domains),
        sample.weights[domains],
        None if groups is None else tuple(groups[e][rows[e]] for e in domains),
    )
    np.testing.assert_allclose(
        regret(other, alpha=0.1).upper, regret(sample, alpha=0.1).upper, atol=1e-10
    )


@settings(max_examples=40, deadline=None)
@given(samples)
def test_what_is_left_out_stays_out_as_checkpoints_come(sample: Stratified) -> None:
    T = len(sample)
    before: set[int] = set()
    for k in range(1, T + 1):
        so_far = Stratified(tuple(v[:k] for v in sample.values), sample.weights, sample.groups)
        grown = not_shown_worse(so_far, delta=0.0, alpha=0.3, growing=True)
        out = set(np.flatnonzero(~grown).tolist())
        assert before <= out
        before = out


def test_the_shares_of_a_growing_run_add_up_to_less_than_alpha() -> None:
    from checkwise.statistics.paired_bounds import _pair_shares

    for T in (2, 10, 400):
        assert 0.15 < _pair_shares(T, None, True).sum() < 1
        assert _pair_shares(T, None, False).sum() == pytest.approx(1)


def test_unbounded_values_and_bad_arguments_are_refused() -> None:
    losses = Stratified(([[-3.0, -0.1], [-2.0, -0.5]],), [1.0])
    with refused("unsupported: 0 … 1 … -3 … -0"):
        regret(losses, alpha=0.05)
    good = drawn(6, [0.5, 0.6], [10])
    with refused("value: `alpha` … 0 … 1"):
        regret(good, alpha=0.0)
    with refused("value: `evaluated` … 2"):
        not_shown_worse(good, delta=0.0, alpha=0.1, evaluated=1)
    with refused("value: 1"):
        not_shown_worse(good, delta=1.0, alpha=0.1)
    with refused("value: 1"):
        Stratified(([[1.0]],), [0.5])
    with refused("value"):
        Stratified(([[np.nan]],), [1.0])
    with refused("value"):
        Stratified(([[1.0, 0.0]],), [1.0], ([0],))
    with refused("value"):
        Stratified(([[1.0]], [[1.0], [0.0]]), [0.5, 0.5])
