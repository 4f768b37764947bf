"""A bound is printed with its conditions or not at all; for machines it is always there."""

from __future__ import annotations

import json
from math import log, sqrt
from pathlib import Path

import numpy as np
import pytest

from checkwise.selection import CONDITIONS, NOT_PROMISED
from tests.cli.calls import said, selection
from tests.cli.test_select import TABLE, several

RADIUS = 100 * sqrt(log(2 * 3 / 0.05) / 2 / 10_000)  # three checkpoints, 10,000 examples


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "run.csv"
    path.write_text(TABLE.replace(",1000", ",10000"))
    return path


def test_without_being_asked_no_number_of_the_bound_is_shown(table: Path) -> None:
    text = said("select", table)
    assert "probability" not in text
    assert f"{RADIUS:.2f}" not in text


def test_asked_for_it_comes_with_everything_it_rests_on(table: Path) -> None:
    text = said("select", table, "-v")
    assert "With probability at least 0.95" in text
    assert f"{0.5 + 2 * RADIUS:.2f}" in text
    for claim in (*CONDITIONS, *NOT_PROMISED):
        assert f"  - {claim}\n" in text
    assert "no rule that reads source data alone is best for every target" in text


def test_a_bound_that_says_little_is_one_line(table: Path) -> None:
    table.write_text(TABLE)
    text = said("select", table, "-v")
    assert "No accuracy bound that helps" in text
    assert CONDITIONS[0] not in text


def test_where_there_is_none_it_says_why(table: Path) -> None:
    text = said("select", table, "-v", "--rule", "pure-nll")
    assert "No accuracy bound: Rule pure-nll does not keep accuracy" in text
    assert "probability" not in text


def test_json_always_has_it_whole(table: Path) -> None:
    found = selection(table)["guarantee"]
    assert found["radius_pp"] == pytest.approx(RADIUS, rel=1e-12)
    assert found["bound_pp"] == pytest.approx(0.5 + 2 * RADIUS, rel=1e-12)
    assert found["conditions"] == list(CONDITIONS)
    assert found["not_promised"] == list(NOT_PROMISED)
    none = selection(table, "--rule", "pure-nll")["guarantee"]
    assert none["bound_pp"] is None
    assert "does not keep accuracy" in none["reason"]
    many = json.loads(said("select", several(table), "--json"))["runs"]
    assert [entry["selection"]["guarantee"] == found for entry in many] == [True, True]


@pytest.fixture
def predictions(tmp_path: Path) -> Path:
    """A folder with what every example said at three checkpoints."""
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 3, 200)
    base = rng.normal(size=(200, 3)) + 3 * np.eye(3)[labels]
    for step in (100, 200, 300):
        folder = tmp_path / "predictions" / f"step-{step:06d}"
        folder.mkdir(parents=True)
        logits = base + 0.3 * rng.normal(size=base.shape)
        np.savez(folder / "val.npz", logits=logits, labels=labels)
    return tmp_path / "predictions"


def test_saved_predictions_give_both_bounds_where_one_is_asked_for(predictions: Path) -> None:
    stated = selection(predictions, "-v")["guarantee"]
    paired, paper = stated["paired"]["bound_pp"], stated["bound_pp"]
    assert 0 < paired < paper / 2
    text = said("select", predictions, "-v")
    assert f"at most {paired:.2f} points below" in text
    assert f"the bound is {paper:.2f} points" in text
    for condition in stated["paired"]["conditions"]:
        assert f"  - {condition}\n" in text
    without = selection(predictions)["guarantee"]
    assert "paired" not in without
    assert without["bound_pp"] == paper
