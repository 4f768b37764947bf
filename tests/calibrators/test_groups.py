"""Examples that belong together: whole groups in one fold, and intervals that resample groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from checkwise.calibrators import change_of, cross_fitted, fit, get_calibrator, nll_after
from checkwise.calibrators.cross_fit import FOLDS, RESAMPLES, folds_of, mean_change
from checkwise.metrics import nll_of, units_together
from checkwise.statistics import SEED, resampled_group_means
from tests.calibrators.drawn import drawn


def test_a_group_is_in_one_fold_and_folds_are_about_as_large() -> None:
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 60, 500) * 3 + 7
    fold = folds_of(500, groups)
    assert all(len(set(fold[groups == name])) == 1 for name in np.unique(groups))
    sizes = np.bincount(fold, minlength=FOLDS)
    assert np.ptp(sizes) <= np.bincount(groups).max()
    assert np.ptp(np.bincount(folds_of(503, np.arange(503)))) == 1
    # A group of 20 is a fold by itself; 16 groups of one are the others.
    unequal = folds_of(36, np.minimum(np.arange(36), 16))
    assert np.bincount(unequal, minlength=FOLDS).tolist() == [20, 4, 4, 4, 4]


def test_every_group_is_calibrated_by_a_fit_without_it() -> None:
    rng = np.random.default_rng(1)
    logits: Any = {"a": drawn(1, 120), "b": drawn(2, 90)}
    groups = {"a": rng.integers(0, 15, 120), "b": rng.integers(0, 4, 90)}
    calibrator = get_calibrator("ts")
    found = cross_fitted(logits, calibrator, force=True, groups=groups)
    fold = {name: folds_of(len(groups[name]), groups[name]) for name in logits}
    for name, (z, y) in logits.items():
        for i in range(0, len(y), 17):
            k = fold[name][i]
            rest: Any = {d: (v[fold[d] != k], w[fold[d] != k]) for d, (v, w) in logits.items()}
            assert not set(groups[name][fold[name] != k]) & {groups[name][i]}
            expected = calibrator.fit(rest, force=True).apply(z[[i]])[0]
            np.testing.assert_allclose(found[name][0][i], expected)


def test_means_of_resampled_groups_are_those_of_the_examples_drawn() -> None:
    rng = np.random.default_rng(2)
    groups, values = rng.integers(0, 9, 50), rng.normal(size=(50, 2))
    names = np.unique(groups)
    found = resampled_group_means(values, groups, resamples=20, seed=5)
    rows = np.random.default_rng(5).integers(0, len(names), (20, len(names)), dtype=np.int32)
    for b, taken in enumerate(rows):
        examples = np.concatenate([np.flatnonzero(groups == names[g]) for g in taken])
        np.testing.assert_allclose(found[b], values[examples].mean(axis=0))


def test_copies_of_an_example_add_nothing_where_they_are_a_group() -> None:
    """Ten copies of 200 examples are 200 independent ones, whatever the number of rows."""
    rng = np.random.default_rng(3)
    once = rng.normal(size=200)
    copied, groups = np.repeat(once, 10), {"val": np.repeat(np.arange(200), 10)}
    plain, grouped = mean_change(once), mean_change(copied, groups)
    naive = mean_change(copied)
    assert (grouped.n, grouped.groups) == (2000, 200)
    found, expected = ([c.mean, c.low, c.high] for c in (grouped, plain))
    assert found == pytest.approx(expected)
    width = plain.high - plain.low
    assert naive.high - naive.low == pytest.approx(width / np.sqrt(10), rel=0.1)
    assert plain.as_dict().keys() == {"mean", "low", "high", "n", "level"}
    assert grouped.as_dict()["groups"] == 200


def test_a_number_in_two_domains_is_two_groups() -> None:
    groups = {"b": np.array([0, 1]), "a": np.array([1, 1, 0])}
    units = units_together(groups)  # a, then b
    assert len(set(units)) == 4
    assert units[0] == units[1]
    assert mean_change(np.arange(5.0), groups).groups == 4


def test_one_group_has_no_interval_and_changes_nothing() -> None:
    logits: Any = {"val": drawn(4, 60)}
    groups = {"val": np.zeros(60, dtype=np.int64)}
    change = change_of(logits, fit(logits, "ts"), groups)
    assert (change.mean, change.low, change.high, change.groups) == (0, 0, 0, 1)


def test_the_change_and_the_refined_nll_use_the_folds_of_groups() -> None:
    logits: Any = {"val": drawn(5, 200)}
    z, y = logits["val"]
    groups = {"val": np.random.default_rng(6).integers(0, 25, 200)}
    after: Any = cross_fitted(logits, get_calibrator("ts"), force=True, groups=groups)
    difference = nll_of(after["val"][0], y) - nll_of(np.asarray(z), y)
    change = change_of(logits, get_calibrator("ts").fit(logits, force=True), groups)
    assert change.mean == pytest.approx(difference.mean(), abs=1e-12)
    draws = resampled_group_means(
        difference[:, None], groups["val"], resamples=RESAMPLES, seed=SEED
    )
    assert change.low == pytest.approx(np.percentile(draws, 2.5))
    refined = nll_after(logits, groups=groups)["val"]
    assert refined == pytest.approx(nll_of(after["val"][0], y).mean())
    assert refined != nll_after(logits)["val"]
