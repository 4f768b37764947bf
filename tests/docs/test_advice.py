"""The table that ``advise`` reads is what the packed results give."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import numpy as np
import pytest

from checkwise.advice import evidence
from tests.docs.test_pages import builder


@pytest.fixture(scope="module")
def shipped() -> Any:
    return json.loads(files("checkwise.advice").joinpath(evidence.FILE).read_text("utf-8"))


def test_the_shipped_table_is_rebuilt_from_the_packed_results(shipped: Any) -> None:
    assert builder("advice").compute() == shipped


def test_the_numbers_of_the_demo_are_those_of_a_literal_mean(shipped: Any) -> None:
    runs = json.loads(builder("deploy_effects").FILE.read_text())["runs"]
    changes = [
        run["values"]["deploy-mean-probs-5"]["target_nll"]
        - run["values"]["source-acc"]["target_nll"]
        for run in runs
    ]
    (effect,) = [
        effect
        for effect in shipped["effects"]
        if effect["method"] == "deploy-mean-probs-5"
        and effect["metric"] == "target_nll"
        and effect["against"] == "source-acc"
    ]
    assert effect["runs"] == len(runs) == 30
    assert effect["mean"] == pytest.approx(np.mean(changes), abs=1e-6)
    assert effect["interval"]["low"] < effect["mean"] < effect["interval"]["high"]
    level = np.mean([run["values"]["source-acc"]["target_nll"] for run in runs])
    share = shipped["expected"]["average, softened"]
    assert share == pytest.approx(np.mean(changes) / level, abs=1e-6)


def test_what_is_quoted_is_marked(shipped: Any) -> None:
    quoted = [effect for effect in shipped["effects"] if effect["quoted"]]
    assert quoted
    assert {effect["role"] for effect in quoted} == {"independent"}
    assert shipped["saturated"].startswith("Quoted from")
