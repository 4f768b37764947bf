"""Single runs and many rules: what the tables print, and what they say about it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from checkwise.study import Cohort
from checkwise.study.inference import cluster_means, max_t, numbered
from checkwise.study.tables import build, markdown
from checkwise.study.tables.robustness import influence
from tests.study.cohorts import key, tiny_runs, write_cohort


def test_a_run_is_shown_to_move_the_mean_the_way_it_moves_it(tmp_path: Path) -> None:
    table = build("influence", Cohort.open(write_cohort(tmp_path / "tiny", tiny_runs())))
    changes = np.array([-0.3, -0.1, 0.0])
    mean, error = changes.mean(), changes.std(ddof=1) / np.sqrt(3)
    for run, without in ((key("ERM", 0), -0.05), (key("ERM", 1), -0.15), (key("IRM", 0), -0.2)):
        row = ("target_nll", str(run))
        assert table.value(*row, measure="change") == pytest.approx(mean)
        assert table.value(*row, measure="change_without") == pytest.approx(without)
        moved = table.value(*row, measure="moved_errors")
        assert moved == pytest.approx((without - mean) / error)
    assert "the mean without the run − the mean of all" in table.note
    lines = [line for line in markdown(table).splitlines() if "Target NLL" in line]
    moved_shown = [line.split("|")[6].strip() for line in lines]
    assert moved_shown == ["+0.945", "−0.756", "−0.189"]


def test_a_run_is_notable_whichever_way_it_moves_the_mean() -> None:
    keys = [key("ERM", trial) for trial in range(50)]
    for outlier in (-73.0, 73.0):
        values = np.full(50, np.sign(outlier) * 1.0)
        values[7] += outlier
        first = influence(keys, values)[0]
        assert np.sign(first.moved) == -np.sign(outlier)
        assert not first.sign_changes
        assert first.notable


def test_max_t_is_no_t_test_and_can_be_below_it(tmp_path: Path) -> None:
    # All clusters agree in sign, so that no other of the 256 patterns has as large a |t|.
    values, groups = np.array([[1.0]] * 8 + [[9.0]]), numbered("abcdefghi", "nine")
    assert cluster_means(values, groups).p_value()[0] == pytest.approx(0.0663, abs=1e-4)
    assert max_t(values, groups)[0] == pytest.approx(1 / 256)
    note = build("multiplicity", Cohort.open(write_cohort(tmp_path / "tiny", tiny_runs()))).note
    assert "signs of whole clusters are flipped" in note
    assert "smaller than the t test" in note


def test_one_run_that_carries_a_mean_is_named_first() -> None:
    keys = [key("IRM", trial) for trial in range(50)]
    values = np.full(50, 0.01)
    values[7] = -73.0
    first, second = influence(keys, values)[:2]
    assert first.run == keys[7]
    assert first.notable
    assert first.sign_changes
    assert first.without == pytest.approx(0.01)
    assert not second.notable


def test_leaving_each_run_out_is_what_it_says() -> None:
    values = np.random.default_rng(0).normal(size=6)
    keys = [key("ERM", trial) for trial in range(6)]
    for found in influence(keys, values):
        rest = np.delete(values, keys.index(found.run))
        assert found.without == pytest.approx(rest.mean())
        assert found.value == values[keys.index(found.run)]
