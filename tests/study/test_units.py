"""Intervals by unit, against sums by hand and scipy; and what they let a difference be called."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats

from checkwise.records import RunKey
from checkwise.statistics import bootstrap_interval
from checkwise.study import Contrast, Differences, contrasts, flat_record, leading_means, verdict
from checkwise.study.compare import Verdict
from checkwise.study.inference import cluster_means, numbered, two_way_means
from checkwise.study.units import UnitInterval, unit_intervals
from tests.tables.two_way import variance

KEYS = tuple(
    sorted(
        RunKey("PACS", algorithm, (domain,), h, t)
        for algorithm in ("ERM", "IRM")
        for domain in "abcd"
        for h in range(3)
        for t in range(3)
    )
)
SHARED: dict[str, list[Any]] = {
    "block": [(k.hparams_seed, k.trial_seed) for k in KEYS],
    "draw": [(k.hparams_seed, k.trial_seed if k.hparams_seed else 0) for k in KEYS],
    "trial": [k.trial_seed for k in KEYS],
    "domain": [k.held_out for k in KEYS],
}
COUNTS = {"block": 9, "draw": 7, "trial": 3, "domain": 4}


def table(values: np.ndarray) -> Differences:
    metrics = ("target_nll", "target_accuracy")
    return Differences("ac-nc", "source-acc", KEYS, metrics, values, np.zeros_like(values))


def of_nll(keys: list[RunKey], values: np.ndarray) -> Differences:
    column = values[:, None]
    return Differences("a", "b", tuple(keys), ("target_nll",), column, np.zeros_like(column))


@pytest.mark.parametrize("unit", COUNTS)
def test_an_interval_by_unit_is_the_one_computed_by_hand(unit: str) -> None:
    values = np.random.default_rng(0).normal(-0.2, 1, len(KEYS))
    found = unit_intervals(values, KEYS)[unit]
    error = np.sqrt(variance(values, SHARED[unit]))
    t = scipy.stats.t(COUNTS[unit] - 1)
    half = t.ppf(0.975) * error
    assert found.groups == COUNTS[unit]
    assert (found.low, found.high) == pytest.approx((values.mean() - half, values.mean() + half))
    assert found.p == pytest.approx(2 * t.sf(abs(values.mean()) / error))


@pytest.mark.parametrize("unit", ["block", "trial", "domain"])
def test_equal_groups_give_the_t_interval_of_their_means(unit: str) -> None:
    found = table(np.random.default_rng(1).normal(size=(len(KEYS), 2)))
    nll, accuracy = contrasts(found)
    for row, scale, column in ((nll, 1, 0), (accuracy, 100, 1)):
        means = [
            scale
            * np.mean([found.of_rule[i, column] for i, one in enumerate(SHARED[unit]) if one == g])
            for g in sorted(set(SHARED[unit]))
        ]
        expected = scipy.stats.ttest_1samp(means, 0).confidence_interval(0.95)
        got = row.units[unit]
        assert row.mean == pytest.approx(np.mean(means))
        assert (got.low, got.high) == pytest.approx((expected.low, expected.high))


def test_two_lines_at_once_add_up_and_have_the_degrees_of_freedom_of_the_fewer() -> None:
    random = np.random.default_rng(2)
    domain_effect = dict(zip("abcd", random.normal(size=4), strict=True))
    block_effect = {block: random.normal() for block in sorted(set(SHARED["block"]))}
    values = np.array(
        [
            domain_effect[key.held_out[0]] + block_effect[key.hparams_seed, key.trial_seed]
            for key in KEYS
        ]
    ) + random.normal(0, 0.1, len(KEYS))
    one, other = (variance(values, SHARED[unit]) for unit in ("block", "domain"))
    shared = variance(values, list(zip(SHARED["block"], SHARED["domain"], strict=True)))
    error = np.sqrt(one + other - shared)
    assert error > max(np.sqrt(one), np.sqrt(other))
    half = scipy.stats.t(3).ppf(0.975) * error
    found = unit_intervals(values, KEYS)["block_domain"]
    assert found.groups == 4
    assert (found.low, found.high) == pytest.approx((values.mean() - half, values.mean() + half))


def test_two_lines_at_once_are_never_surer_than_one() -> None:
    # Residuals cancel within both lines but not where they cross: the sum would be negative.
    values = np.array([[1.0], [-1.0], [-1.0], [1.0]])
    rows, columns = numbered("aabb", "row"), numbered("xyxy", "column")
    assert two_way_means(values, rows, columns).error == [0.0]
    lopsided = np.array([[3.0], [-1.0], [-1.0], [1.0]])
    found = two_way_means(lopsided, rows, columns)
    one = np.sqrt(variance(lopsided[:, 0], list("aabb")))
    assert found.error == pytest.approx([one])


def test_runs_without_a_finite_value_leave_their_group() -> None:
    values = np.random.default_rng(3).normal(size=(len(KEYS), 2))
    values[[i for i, key in enumerate(KEYS) if key.hparams_seed == 0], 0] = np.nan
    found = table(values)
    nll, accuracy = contrasts(found)
    assert (nll.n, nll.units["block"].groups, nll.units["draw"].groups) == (48, 6, 6)
    assert (accuracy.n, accuracy.units["block"].groups) == (72, 9)


def test_domains_of_different_data_sets_are_different_domains() -> None:
    keys = [RunKey(data, "ERM", ("art",), 0, t) for data in ("A", "B", "C") for t in range(2)]
    found = unit_intervals(np.arange(6.0), keys)
    assert (found["domain"].groups, found["trial"].groups) == (3, 2)


GAIN = Contrast(
    *("ac-nc", "source-acc", "target_nll", 1, 180, -0.075, -0.103, -0.050, -0.001, -0.04),
    *(91, 66, 23, float("nan"), 0),
)
CLEAR, ZERO = UnitInterval(9, -0.14, -0.01, 0.03), UnitInterval(9, -0.16, 0.01, 0.08)
FEW = UnitInterval(2, -0.9, 0.7, 0.5)
FOUR_ZERO = replace(ZERO, groups=4)
ALL = dict.fromkeys(("block", "draw", "trial", "domain", "block_domain"), CLEAR)


@pytest.mark.parametrize(
    ("units", "direction", "scope", "against"),
    [
        (ALL, "better", "new domains", ()),
        (ALL | {"block": ZERO}, "unclear", "new domains", ("block",)),
        (ALL | {"draw": ZERO}, "unclear", "new domains", ("draw",)),
        (ALL | {"trial": ZERO}, "unclear", "new domains", ("trial",)),
        # More than two domains decide, be they three, four or nine.
        (ALL | {"domain": replace(ZERO, groups=3)}, "unclear", "these domains", ("domain",)),
        (ALL | {"domain": FOUR_ZERO}, "unclear", "these domains", ("domain",)),
        (ALL | {"domain": ZERO}, "unclear", "these domains", ("domain",)),
        (ALL | {"block_domain": ZERO}, "unclear", "these domains", ("block_domain",)),
        (ALL | {"domain": FEW, "block_domain": FEW}, "better", "these domains", ()),
        (ALL | {"trial": FEW}, "better", "new domains", ()),
        (ALL | dict.fromkeys(("block", "draw", "trial"), FEW), "better", "these runs", ()),
        ({}, "better", "these runs", ()),
    ],
)
def test_a_difference_is_found_only_where_every_unit_excludes_zero(
    units: dict[str, UnitInterval], direction: str, scope: str, against: tuple[str, ...]
) -> None:
    found = verdict(replace(GAIN, units=units))
    assert (found.direction, found.reach, found.against) == (direction, scope, against)
    assert found.too_few == tuple(unit for unit in units if units[unit] is FEW)


def test_an_interval_that_touches_zero_does_not_exclude_it() -> None:
    touching = replace(CLEAR, high=0.0)
    assert verdict(replace(GAIN, units=ALL | {"draw": touching})).direction == "unclear"
    assert verdict(replace(GAIN, high=0.0, units=ALL)).against == ("run",)
    above = dict.fromkeys(ALL, UnitInterval(9, 0.01, 0.14, 0.03))
    assert verdict(replace(GAIN, mean=0.075, low=0.05, high=0.1, units=above)).direction == "worse"


def test_a_unit_on_the_other_side_of_zero_does_not_bear_out() -> None:
    """Where places differ in size, the mean over places and that over runs can differ in sign."""
    worse = replace(GAIN, mean=0.075, low=0.05, high=0.1, over="places", over_runs=(-0.1, -0.05))
    assert verdict(replace(worse, units=ALL)) == Verdict(
        "unclear", "these domains", ("run", *ALL), ()
    )


def test_the_interval_over_places_has_to_exclude_zero_where_it_is_shown() -> None:
    shown = replace(GAIN, high=0.01, over="places", over_runs=(-0.1, -0.05), units=ALL)
    assert verdict(shown).against == ("domain",)
    assert verdict(replace(shown, high=-0.01)).direction == "better"


def test_blocks_by_domains_are_no_unit_where_no_domains_share_seeds() -> None:
    units = ALL | {"block_domain": ZERO}
    assert verdict(replace(GAIN, crossed=False, units=units)).direction == "better"
    assert verdict(replace(GAIN, units=units)).against == ("block_domain",)


def test_seeds_that_algorithms_share_inside_a_domain_do_not_cross_domains() -> None:
    keys = [
        RunKey("d", algorithm, (f"p{i}",), 1, 10 * i + j)
        for algorithm in ("ERM", "IRM")
        for i in range(3)
        for j in range(3)
    ]
    (row,) = contrasts(of_nll(keys, np.random.default_rng(1).normal(size=len(keys))))
    assert (row.over, row.crossed, row.units["block"].groups) == ("domains", False, 9)


def test_a_mean_over_places_keeps_that_over_runs() -> None:
    keys = [RunKey("d", "ERM", ("abc"[min(i // 10, 2)],), 1, i) for i in range(22)]  # 10, 10, 2
    values = np.array([0.0] * 10 + [1.0] * 10 + [5.0] * 2)
    (row,) = contrasts(of_nll(keys, values))
    assert (row.over, row.mean) == ("domains", 2.0)
    assert row.mean_over_runs == pytest.approx(20 / 22)
    leading = leading_means(values[:, None], keys)
    assert (str(leading.unit), leading.means.mean[0]) == ("3 domains", 2.0)
    assert leading.means.p_value()[0] == pytest.approx(scipy.stats.ttest_1samp([0, 1, 5], 0).pvalue)


def of_places(places: int, values: np.ndarray) -> Differences:
    """A change of NLL at so many held-out places, two runs each."""
    keys = [
        RunKey("traps", "ERM", (f"p{i}",), 1, 10 * i + j) for i in range(places) for j in (0, 1)
    ]
    return of_nll(keys, values)


def over_runs(values: np.ndarray) -> tuple[float, ...]:
    return tuple(end[0] for end in bootstrap_interval(values[:, None]))


def test_many_places_are_the_unit_of_the_interval() -> None:
    values = np.random.default_rng(4).normal(-0.2, 1, 12)
    values[3] = np.nan  # its place counts as much with one run
    found = of_places(6, values)
    (row,) = contrasts(found)
    means = np.nanmean(values.reshape(6, 2), axis=1)
    interval = scipy.stats.ttest_1samp(means, 0).confidence_interval(0.95)
    assert (row.over, row.n, row.missing) == ("places", 11, 1)
    assert (row.mean, row.low, row.high) == pytest.approx((means.mean(), *interval))
    assert row.over_runs == over_runs(values[~np.isnan(values)])
    assert row.places is not None
    half = scipy.stats.t(5).ppf(0.975) * means.std(ddof=1) * np.sqrt(1 + 1 / 6)
    assert (row.places.new_low, row.places.new_high) == pytest.approx(
        (means.mean() - half, means.mean() + half)
    )
    flat = flat_record(row.record())
    assert (flat["places"], flat["place_new_low"]) == (6, row.places.new_low)
    assert (flat["run_low"], flat["run_high"]) == row.over_runs


def test_few_places_are_the_unit_too_and_are_called_domains() -> None:
    values = np.random.default_rng(5).normal(-0.2, 1, 10)
    found = of_places(5, values)
    (row,) = contrasts(found)
    assert (row.over, row.over_runs) == ("domains", over_runs(values))
    interval = scipy.stats.ttest_1samp(values.reshape(5, 2).mean(axis=1), 0).confidence_interval()
    assert (row.mean, row.low, row.high) == pytest.approx((values.mean(), *interval))
    assert (row.low, row.high) == pytest.approx((row.units["domain"].low, row.units["domain"].high))


@pytest.mark.parametrize("domains", [3, 4, 8])
def test_domains_that_share_seeds_lead_together_with_them(domains: int) -> None:
    keys = [RunKey("d", "ERM", (f"p{i}",), h, 0) for i in range(domains) for h in range(5)]
    values = np.random.default_rng(domains).normal(size=len(keys))
    (row,) = contrasts(of_nll(keys, values))
    both = row.units["block_domain"]
    assert (row.over, row.low, row.high) == ("blocks × domains", both.low, both.high)
    assert row.mean == pytest.approx(values.mean())


def test_two_way_errors_are_those_of_statsmodels() -> None:
    """Made by golden/two_way.py: a mean with two-way clustered errors, unequal clusters."""
    golden = json.loads((Path(__file__).parents[1] / "statistics/golden/two_way.json").read_text())
    assert len(golden["cases"]) >= 3
    for case in golden["cases"]:
        values = np.array(case["values"])[:, None]
        first, second = numbered(case["first"], "block"), numbered(case["second"], "domain")
        found = two_way_means(values, first, second)
        assert found.mean == pytest.approx([case["mean"]])
        one_way = [cluster_means(values, groups).error[0] for groups in (first, second)]
        assert one_way == pytest.approx(case["one_way"])
        assert found.error == pytest.approx([max(case["two_way"], *one_way)])
        assert found.df == min(first.count, second.count) - 1
