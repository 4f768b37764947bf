"""Means over places: hand calculations, scipy, and simulated places."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from checkwise.study.inference import cluster_means, numbered, over_places


def test_the_mean_over_places_is_scipys_one_sample_t() -> None:
    random = np.random.default_rng(0)
    place = random.permutation(np.repeat(np.arange(24), random.integers(1, 9, 24)))
    values = random.normal(0.1, 1, len(place))
    means = np.array([values[place == p].mean() for p in dict.fromkeys(place.tolist())])
    found = over_places(values, numbered(place.tolist(), "place"))
    reference = stats.ttest_1samp(means, 0)
    assert np.allclose(found.by_place, means)
    assert found.mean == pytest.approx(means.mean())
    assert found.p == pytest.approx(reference.pvalue)
    assert found.interval() == pytest.approx(tuple(reference.confidence_interval(0.95)))


def test_with_equally_many_runs_it_is_the_clustered_interval() -> None:
    values = np.random.default_rng(1).normal(size=24)
    groups = numbered(np.tile(np.arange(8), 3).tolist(), "place")
    low, high = cluster_means(values[:, None], groups).interval()
    assert over_places(values, groups).interval() == pytest.approx((low[0], high[0]))


def test_a_place_with_more_runs_weighs_the_same() -> None:
    found = over_places(np.array([0.0, 0.0, 0.0, 0.0, 3.0]), numbered("aaaab", "place"))
    assert found.mean == 1.5


def test_a_new_place_by_hand() -> None:
    found = over_places(np.array([1.0, 2.0, 3.0, 6.0]), numbered("abcd", "place"))
    s = np.sqrt(14 / 3)  # squares of −2, −1, 0, 3
    half = stats.t.ppf(0.95, 3) * s * np.sqrt(1.25)
    assert found.new_place(0.9) == pytest.approx((3 - half, 3 + half))


@pytest.mark.parametrize("places", [4, 24])
def test_a_new_place_falls_inside_as_often_as_it_says(places: int) -> None:
    random = np.random.default_rng(places)
    studies, runs = 4000, 3
    level = random.normal(0.2, 1.0, (studies, places + 1, 1))
    values = level + random.normal(0, 0.5, (studies, places + 1, runs))
    groups = numbered(np.repeat(np.arange(places), runs).tolist(), "place")
    inside = mean_inside = 0
    for study in values:
        found = over_places(study[:places].ravel(), groups)
        low, high = found.new_place(0.9)
        inside += low <= study[places].mean() <= high
        low, high = found.interval(0.9)
        mean_inside += low <= study[places].mean() <= high
    assert inside / studies == pytest.approx(0.9, abs=0.015)
    assert mean_inside / studies < 0.75  # the interval of the mean is no answer to this question


def test_without_spread_or_with_one_place() -> None:
    assert over_places(np.zeros(3), numbered("abc", "place")).p == 1
    assert over_places(np.ones(3), numbered("abc", "place")).p == 0
    alone = over_places(np.ones(2), numbered("aa", "place"))
    assert np.isnan([alone.p, *alone.interval(), *alone.new_place()]).all()
