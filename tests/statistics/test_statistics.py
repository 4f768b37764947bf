"""Ranks, transfer, spread and risk against outside references or by hand."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from sklearn.isotonic import IsotonicRegression

from checkwise.statistics import isotonic, kendall, partial_spearman, spearman, transfer
from checkwise.study.inference import risk_coverage, spread
from tests.refusals import refused


@pytest.mark.parametrize("seed", range(4))
def test_rank_correlations_equal_scipys_with_ties(seed: int) -> None:
    x, y = np.random.default_rng(seed).integers(0, 9, (2, 30)).astype(float)
    assert kendall(x, y) == pytest.approx(scipy.stats.kendalltau(x, y).statistic)
    assert spearman(x, y) == pytest.approx(scipy.stats.spearmanr(x, y).statistic)


def test_kendall_works_along_the_last_axis() -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 5, 12))
    each = [kendall(x[i], y[i]) for i in range(5)]
    np.testing.assert_allclose(kendall(x, y), each)


def test_a_constant_side_has_no_rank_correlation() -> None:
    assert np.isnan(kendall(np.ones(4), np.arange(4.0)))
    assert np.isnan(spearman(np.arange(4.0), np.ones(4)))


@pytest.mark.parametrize("seed", range(5))
def test_isotonic_fits_equal_scikit_learns(seed: int) -> None:
    random = np.random.default_rng(seed)
    x = random.integers(0, 12, 30).astype(float)
    y = x + random.normal(0, 4, 30)
    theirs = IsotonicRegression().fit_transform(x, y)
    np.testing.assert_allclose(isotonic(x, y), theirs, atol=1e-12)


def test_pairs_that_meet_the_condition_keep_their_order() -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        u = random.normal(size=15)
        v = u**3 + random.normal(0, 0.3, 15)
        found = transfer(u, v)
        residual = v - found.fitted
        assert found.omega == pytest.approx(residual.max() - residual.min())
        assert found.certain <= found.kept <= found.pairs == 15 * 14 // 2


def test_transfer_refuses_diverged_checkpoints() -> None:
    with refused("value"):
        transfer(np.array([1.0, np.nan]), np.array([1.0, 2.0]))


def test_the_tail_counts_from_the_worse_side() -> None:
    changes = np.array([-0.3, 0.1, 1.0, 2.5, 0.0])  # of an error: positive is worse
    found = spread(changes, higher_is_better=False)
    assert (found.wins, found.ties, found.losses, found.lose_point) == (1, 1, 3, 2)
    assert found.worst == -2.5
    assert found.tail == pytest.approx(np.percentile(-changes, 5))


def test_risk_is_the_error_rate_among_the_surest() -> None:
    confidence = np.array([0.5, 0.9, 0.8, 0.9])
    found = risk_coverage(confidence, np.array([False, True, True, False]))
    assert found.coverage.tolist() == [0.5, 0.75, 1.0]
    assert found.risk.tolist() == pytest.approx([0.5, 1 / 3, 0.5])
    assert found.area == pytest.approx((0.5 * 2 + 1 / 3 + 0.5) / 4)
    assert found.at(1.0) == 0.5


def test_partial_rank_correlation_is_that_of_residuals_of_ranks() -> None:
    random = np.random.default_rng(7)
    for n in (4, 9, 40):
        z = random.integers(0, max(3, n // 2), n).astype(float)  # with ties
        x, y = z + random.normal(0, 2, n), np.round(z + random.normal(0, 2, n))
        ranks = [scipy.stats.rankdata(v) for v in (x, y, z)]
        left = [r - np.polyval(np.polyfit(ranks[2], r, 1), ranks[2]) for r in ranks[:2]]
        expected = scipy.stats.pearsonr(*left)[0]
        assert partial_spearman(x, y, z) == pytest.approx(expected)
    assert np.isnan(partial_spearman(z, y, z))  # nothing of x is left
    assert np.isnan(partial_spearman(np.ones(n), y, z))


def test_partial_rank_correlation_takes_away_what_time_explains() -> None:
    """Two sides that only follow the step agree, and do not once the step is given."""
    random = np.random.default_rng(8)
    step = np.arange(30.0)
    plain, given = [], []
    for _ in range(300):
        x, y = step + random.normal(0, 8, 30), step + random.normal(0, 8, 30)
        plain.append(spearman(x, y))
        given.append(partial_spearman(x, y, step))
    assert np.mean(plain) > 0.4
    assert abs(np.mean(given)) < 0.05
