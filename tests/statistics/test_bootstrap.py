"""Intervals of means over runs: the draws, the percentiles and their limits."""

from __future__ import annotations

from inspect import signature

import numpy as np
import pytest
import scipy.stats

from checkwise.statistics import bootstrap, bootstrap_interval, resampled_means
from checkwise.statistics.bootstrap import draws
from tests.refusals import refused

# Before scipy 1.15 it has another name.
GENERATOR = "rng" if "rng" in signature(scipy.stats.bootstrap).parameters else "random_state"


@pytest.mark.parametrize("n", [2, 3, 30, 135])
def test_intervals_equal_scipys_on_the_same_draws(n: int) -> None:
    values = np.random.default_rng(n).standard_t(3, (n, 4))
    low, high = bootstrap_interval(values)
    for column in range(4):
        theirs = scipy.stats.bootstrap(
            (values[:, column],),
            np.mean,
            n_resamples=10_000,
            confidence_level=0.95,
            method="percentile",
            vectorized=True,
            **{GENERATOR: np.random.default_rng(20260908)},
        ).confidence_interval
        assert low[column] == pytest.approx(theirs.low, abs=1e-12)
        assert high[column] == pytest.approx(theirs.high, abs=1e-12)


def test_draws_do_not_depend_on_the_size_of_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    (whole,) = draws(7, 101)
    values = np.random.default_rng(0).normal(size=(7, 2))
    means = resampled_means(values, resamples=101)
    monkeypatch.setattr(bootstrap, "_DRAWN_AT_ONCE", 7 * 9)
    monkeypatch.setattr(bootstrap, "_REMEMBERED", 0)
    blocks = list(draws(7, 101))
    assert len(blocks) == 12
    np.testing.assert_array_equal(np.concatenate(blocks), whole)
    np.testing.assert_allclose(resampled_means(values, resamples=101), means, rtol=0, atol=1e-15)


@pytest.mark.parametrize(("n", "resamples"), [(11, 50), (70_000, 2)])
def test_the_draws_are_those_of_the_documented_generator(n: int, resamples: int) -> None:
    (counts,) = draws(n, resamples, seed=3)
    literal = np.random.default_rng(3).integers(0, n, (resamples, n))
    np.testing.assert_array_equal(counts, [np.bincount(row, minlength=n) for row in literal])


@pytest.mark.parametrize("n", [20, 60])
def test_bca_equals_scipys_on_the_same_draws(n: int) -> None:
    values = np.random.default_rng(n).exponential(size=(n, 3))
    low, high = bootstrap_interval(values, method="bca", seed=20260924)
    theirs = scipy.stats.bootstrap(
        (values.T,),
        np.mean,
        axis=-1,
        n_resamples=10_000,
        method="BCa",
        **{GENERATOR: np.random.default_rng(20260924)},
    ).confidence_interval
    np.testing.assert_allclose(low, theirs.low, rtol=0, atol=1e-12)
    np.testing.assert_allclose(high, theirs.high, rtol=0, atol=1e-12)


def test_bca_of_a_constant_is_that_constant() -> None:
    low, high = bootstrap_interval(np.full((8, 1), 0.3), method="bca")
    assert low[0] == high[0] == pytest.approx(0.3)


def test_an_unknown_method_is_refused() -> None:
    with refused("value: 'percentile' … 'bca' … 'normal'"):
        bootstrap_interval(np.ones((3, 1)), method="normal")  # type: ignore[arg-type]


def test_rows_are_resampled_whole_so_equal_columns_have_equal_intervals() -> None:
    column = np.random.default_rng(0).normal(size=(20, 1))
    low, high = bootstrap_interval(np.hstack([column, column, -column]))
    assert low[0] == low[1] == pytest.approx(-high[2])
    assert high[0] == high[1] == pytest.approx(-low[2])


def test_three_runs_can_be_worked_out_by_hand() -> None:
    # A resample of three equal runs has probability 1/27 > 2.5%, so the ends are the extremes.
    low, high = bootstrap_interval(np.array([[-0.3], [-0.1], [0.0]]))
    assert low[0] == pytest.approx(-0.3)
    assert high[0] == pytest.approx(0.0)


def test_one_run_has_no_interval() -> None:
    low, high = bootstrap_interval(np.array([[1.0, 2.0]]))
    assert np.isnan(low).all()
    assert np.isnan(high).all()


def test_values_that_are_not_finite_are_refused() -> None:
    with refused("value: 1"):
        bootstrap_interval(np.array([[1.0], [np.nan]]))


def test_a_level_that_is_no_probability_is_refused() -> None:
    with refused("value: `level` … 0 … 1 … 95"):
        bootstrap_interval(np.array([[1.0], [2.0]]), level=95)
