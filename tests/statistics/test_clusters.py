"""Inference that respects shared draws, against versions written out in full."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import product
from math import sqrt

import numpy as np
import pytest
import scipy.stats

from checkwise.records import RunKey
from checkwise.study import clusters
from checkwise.study.inference import (
    cluster_means,
    equivalence,
    holm,
    max_t,
    minimum_detectable_effect,
    numbered,
    wild_interval,
)
from checkwise.study.inference.hypotheses import Equivalence, wild_p_value
from tests.refusals import refused

LABELS = "aabbbccddddeeff"  # six clusters of unlike size


def sample(seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    shared = dict(zip("abcdef", random.normal(size=6), strict=True))
    return np.array([0.6 + shared[label] + random.normal() for label in LABELS])


def literal_t(values: list[float], labels: str, null: float = 0.0) -> tuple[float, float, float]:
    """Mean, cluster-robust error and t, one term at a time."""
    n, names = len(values), sorted(set(labels))
    mean = sum(values) / n
    inside = 0.0
    for name in names:
        inside += (
            sum(v - mean for v, label in zip(values, labels, strict=True) if label == name) ** 2
        )
    error = sqrt(len(names) / (len(names) - 1) * inside) / n
    return mean, error, (mean - null) / error


def literal_wild(values: list[float], labels: str, null: float) -> float:
    """The p-value over every assignment of a sign to every cluster."""
    names = sorted(set(labels))
    observed = abs(literal_t(values, labels, null)[2])
    reached = 0
    for signs in product((-1, 1), repeat=len(names)):
        sign = dict(zip(names, signs, strict=True))
        flipped = [null + sign[label] * (v - null) for v, label in zip(values, labels, strict=True)]
        reached += abs(literal_t(flipped, labels, null)[2]) >= observed * (1 - 1e-9)
    return float(reached / 2 ** len(names))


def test_cluster_t_is_what_it_says() -> None:
    values = sample()
    found = cluster_means(values[:, None], numbered(LABELS, "made up"))
    mean, error, t = literal_t(values.tolist(), LABELS)
    assert found.mean[0] == pytest.approx(mean)
    assert found.error[0] == pytest.approx(error)
    assert found.df == 5
    low, high = found.interval(0.9)
    half = scipy.stats.t.ppf(0.95, 5) * error
    assert [low[0], high[0]] == pytest.approx([mean - half, mean + half])
    assert found.p_value()[0] == pytest.approx(2 * scipy.stats.t.sf(abs(t), 5))


def test_equal_clusters_give_the_t_test_of_their_means() -> None:
    values = np.random.default_rng(1).normal(size=(9, 4)) + 0.3
    found = cluster_means(values.reshape(-1, 1), numbered(np.repeat(range(9), 4).tolist(), "nine"))
    theirs = scipy.stats.ttest_1samp(values.mean(axis=1), 0)
    assert found.p_value()[0] == pytest.approx(theirs.pvalue)
    ends = theirs.confidence_interval(0.95)
    assert [end[0] for end in found.interval()] == pytest.approx([ends.low, ends.high])


@pytest.mark.parametrize("null", [0.0, 0.4, -1.0])
def test_wild_p_values_enumerate_every_sign_pattern(null: float) -> None:
    values = sample(2)
    mine = wild_p_value(values[:, None], numbered(LABELS, "made up"), null)[0]
    assert mine == pytest.approx(literal_wild(values.tolist(), LABELS, null))


def test_wild_intervals_hold_what_the_test_does_not_reject() -> None:
    values, groups = sample(3), numbered(LABELS, "made up")
    (low,), (high,) = wild_interval(values[:, None], groups, level=0.9)
    assert low < values.mean() < high
    for end, outward in ((low, -1), (high, 1)):
        assert literal_wild(values.tolist(), LABELS, end - outward * 1e-6) > 0.1
        assert literal_wild(values.tolist(), LABELS, end + outward * 1e-6) <= 0.1


def test_five_clusters_cannot_exclude_anything_at_95_percent() -> None:
    values = np.arange(10.0)[:, None] + 100
    low, high = wild_interval(values, numbered("aabbccddee", "five"))
    assert (low[0], high[0]) == (-np.inf, np.inf)
    assert wild_p_value(values, numbered("aabbccddee", "five"))[0] == pytest.approx(1 / 16)


def test_many_clusters_draw_their_signs_and_repeat_them() -> None:
    values = np.random.default_rng(5).normal(size=(30, 1)) + 0.5
    groups = numbered(range(30), "run")
    p = wild_p_value(values, groups)
    assert p == wild_p_value(values, groups)
    theirs = cluster_means(values, groups).p_value()
    assert p[0] == pytest.approx(theirs[0], abs=0.02)


def test_one_cluster_says_nothing_about_spread() -> None:
    values, alone = np.array([[1.0], [2.0]]), numbered("aa", "one")
    assert np.isnan(cluster_means(values, alone).interval()).all()
    assert np.isnan(wild_interval(values, alone)).all()
    assert np.isnan(wild_p_value(values, alone)).all()


def test_runs_are_grouped_by_what_they_share() -> None:
    keys = [
        RunKey(dataset, "ERM", ("d",), h, t)
        for dataset in ("A", "B")
        for h in range(3)
        for t in range(3)
    ]
    assert clusters(keys, "block").count == 9
    draws = clusters(keys, "draw")
    assert draws.count == 7  # seed 0 is the default in every trial
    assert sorted(draws.sizes.tolist()) == [2, 2, 2, 2, 2, 2, 6]
    assert clusters(keys, ["dataset", "trial_seed"]).count == 6
    for unknown in ("seed", ["seed"]):
        with pytest.raises(KeyError, match="seed"):
            clusters(keys, unknown)


def compared(
    values: np.ndarray, labels: Iterable[Hashable], margin: float, *, higher: bool = True
) -> Equivalence:
    means = cluster_means(values[:, None], numbered(list(labels), "made up"))
    return equivalence(means, margin, higher_is_better=higher)


def test_equivalence_is_two_one_sided_t_tests() -> None:
    values = np.random.default_rng(0).normal(0.1, 0.5, 40)
    found = compared(values, range(40), 0.3)
    above = scipy.stats.ttest_1samp(values, -0.3, alternative="greater").pvalue
    below = scipy.stats.ttest_1samp(values, 0.3, alternative="less").pvalue
    assert found.p_equivalent == pytest.approx(max(above, below))
    assert found.p_noninferior == pytest.approx(above)
    assert (found.p_equivalent <= 0.05) == (found.low > -0.3 and found.high < 0.3)
    lower = compared(values, range(40), 0.3, higher=False)
    assert lower.p_noninferior == pytest.approx(below)


def test_a_difference_of_exactly_nothing_is_equivalent() -> None:
    found = compared(np.zeros(9), range(9), 0.1)
    assert found.p_equivalent == found.p_noninferior == 0


def test_one_cluster_shows_no_equivalence() -> None:
    found = compared(np.array([0, 0.1, 0]), "aaa", 5)
    assert found.p_equivalent == 1


def test_a_margin_is_a_size() -> None:
    with refused("value: `margin` … 0"):
        compared(np.ones(3), "abc", 0)


def test_holm_never_decreases_and_leaves_gaps_out() -> None:
    corrected = holm(np.array([0.04, np.nan, 0.01, 0.5, 0.02]))
    assert corrected[[0, 2, 3, 4]].tolist() == pytest.approx([0.08, 0.04, 0.5, 0.06])
    assert np.isnan(corrected[1])


def test_holm_equals_statsmodels() -> None:
    """`multipletests(p, method="holm")` of statsmodels 0.15.0."""
    p = [1.0, 0.001312255859375, 5.960464477539063e-08, 0.1795654296875, 1.8189894035458565e-12]
    expected = [
        1.0,
        0.003936767578125,
        2.384185791015625e-07,
        0.359130859375,
        9.094947017729282e-12,
    ]
    assert holm(np.array(p)).tolist() == pytest.approx(expected, rel=1e-9, abs=0)


def test_max_t_compares_with_the_largest_of_all_columns() -> None:
    values = np.stack([sample(4), sample(5) * 3, sample(4) * 2, np.zeros(len(LABELS))], axis=1)
    groups = numbered(LABELS, "made up")
    found = max_t(values, groups)
    observed = [abs(literal_t(values[:, k].tolist(), LABELS)[2]) for k in range(3)]
    reached = np.zeros(3)
    for signs in product((-1, 1), repeat=6):
        sign = np.array([dict(zip("abcdef", signs, strict=True))[label] for label in LABELS])
        largest = max(abs(literal_t((sign * values[:, k]).tolist(), LABELS)[2]) for k in range(3))
        reached += [largest >= t * (1 - 1e-9) for t in observed]
    assert found[:3].tolist() == pytest.approx((reached / 64).tolist())
    assert np.isnan(found[3])
    assert found[0] == found[2]  # a column and its double are one comparison
    assert (found[:3] >= wild_p_value(values[:, :3], groups) - 1e-12).all()


def test_the_detectable_effect_is_detected_as_often_as_promised() -> None:
    random = np.random.default_rng(0)
    groups = numbered(range(20), "run")
    effects = [
        minimum_detectable_effect(cluster_means(random.normal(size=(20, 1)), groups))
        for _ in range(400)
    ]
    effect = np.median(effects)
    hits = [
        cluster_means(random.normal(effect, 1, (20, 1)), groups).p_value()[0] < 0.05
        for _ in range(400)
    ]
    assert np.mean(hits) == pytest.approx(0.8, abs=0.06)
