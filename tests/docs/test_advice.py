"""The table that ``advise`` reads is what the packed results give."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
import scipy.stats

from checkwise.advice import evidence
from tests.docs.test_pages import builder


@pytest.fixture(scope="module")
def shipped() -> Any:
    return json.loads(files("checkwise.advice").joinpath(evidence.FILE).read_text("utf-8"))


def test_the_shipped_table_is_rebuilt_from_the_packed_results(shipped: Any) -> None:
    assert builder("advice").compute() == shipped


def test_the_order_is_that_of_a_literal_mean_over_places(shipped: Any) -> None:
    record = builder("outcomes").record_of("taicam-sites")
    places: dict[str, list[float]] = {}
    values = record["values"]
    for run, ours, theirs in zip(
        record["runs"],
        values["advised"]["target_nll"],
        values["source-acc"]["target_nll"],
        strict=True,
    ):
        places.setdefault(str(run["held_out"]), []).append(ours - theirs)
    means = [np.mean(changes) for changes in places.values()]
    (effect,) = [
        effect
        for effect in shipped["effects"]
        if effect["method"] == "deploy-mean-probs-5"
        and effect["data"] == "camera traps, 24 places"
        and effect["metric"] == "target_nll"
        and effect["against"] == "source-acc"
    ]
    assert effect["runs"] == len(record["runs"]) == 144
    assert effect["mean"] == pytest.approx(np.mean(means), abs=1e-6)
    half = scipy.stats.t.ppf(0.975, 23) * np.std(means, ddof=1) / np.sqrt(24)
    assert effect["interval"]["high"] - effect["mean"] == pytest.approx(half, abs=2e-6)
    level = np.mean(values["source-acc"]["target_nll"])
    share = shipped["expected"]["average, softened"]
    assert share == pytest.approx(np.mean(means) / level, abs=1e-6)


def test_advised_is_the_average_where_no_run_is_saturated() -> None:
    advice = builder("advice")
    for name in advice.MEASURED:
        errors = builder("outcomes").read(name).values["source-acc"]["errors"]
        assert errors.min() > advice.FEW_ERRORS


def test_groups_are_said_to_do_more_than_any_step_only_where_they_do(shipped: Any) -> None:
    advice = builder("advice")
    (step, *_) = [one for one in evidence.read().effects if one.metric == "target_nll"]
    assert advice._by_groups([step]) == shipped["groups"]
    with pytest.raises(AssertionError):
        advice._by_groups([step, replace(step, mean=-0.9)])


def test_what_is_quoted_is_marked(shipped: Any) -> None:
    quoted = [effect for effect in shipped["effects"] if effect["quoted"]]
    assert quoted
    assert {effect["role"] for effect in quoted} == {"independent"}
    assert "Quoted from an independent analysis" in shipped["saturated"]


def test_what_is_not_shown_names_the_units_that_include_zero() -> None:
    some = next(one for one in evidence.read().effects if one.not_borne_out and one.interval)
    interval = evidence.Interval("block", 9, -0.2, -0.1)
    row = replace(some, direction="unclear", mean=-0.15, interval=interval)
    only_both = replace(row, not_borne_out=("block_domain",))
    assert only_both.strength == (
        "not shown: intervals over blocks of seeds × held-out domains include zero"
    )
    two = replace(row, not_borne_out=("draw", "domain"))
    assert two.strength.endswith("over draws of hyperparameters or held-out domains include zero")
