"""The figure against the learning rate: every finite change, and what is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from checkwise.study import Cohort, Pool
from checkwise.study.figures import learning_rate
from tests.refusals import refused
from tests.study.cohorts import WrittenRun, trained_with, write_cohort


def test_the_effect_at_every_learning_rate_is_that_of_its_runs(tmp_path: Path) -> None:
    runs = trained_with(1e-3, 1e-3, 3e-4, 3e-4)
    found = learning_rate.facts(Pool([Cohort.open(write_cohort(tmp_path / "c", runs))]))
    assert [each.rate for each in found] == [3e-4, 1e-3]
    # ERM's trials go from NLL 1.5 to 1.2 and from 2.0 to 1.9; IRM has one candidate.
    assert found[0].changes["target_nll"] == (0.0,)
    assert found[1].changes["target_nll"] == pytest.approx((-0.3, -0.1))
    assert found[1].changes["target_accuracy"] == pytest.approx((2.0, -1.0))


def test_one_learning_rate_makes_no_curve(tmp_path: Path) -> None:
    pool = Pool([Cohort.open(write_cohort(tmp_path / "c", trained_with(*[1e-3] * 4)))])
    with refused("empty: pacs-ladder"):
        learning_rate.facts(pool)


def without(run: WrittenRun, *metrics: str) -> WrittenRun:
    """The run without some target metrics, as an older journal may be."""
    return replace(run, target_lacks=metrics)


def test_a_run_without_a_finite_nll_keeps_its_accuracy(tmp_path: Path) -> None:
    runs = trained_with(1e-3, 1e-3, 3e-4, 3e-4)
    runs[0] = without(runs[0], "nll")
    found = learning_rate.facts(Pool([Cohort.open(write_cohort(tmp_path / "c", runs))]))
    assert [each.n for each in found] == [1, 2]
    assert found[1].changes["target_nll"] == pytest.approx((-0.1,))
    assert found[1].changes["target_accuracy"] == pytest.approx((2.0, -1.0))
    assert learning_rate.missing(found) == {"target_nll": 1}
    assert learning_rate.draw(found).get_suptitle().endswith("not shown: 1 of Δ NLL")


def test_a_rate_without_any_finite_nll_has_no_mean_of_it(tmp_path: Path) -> None:
    runs = trained_with(1e-3, 1e-3, 3e-4, 3e-4)
    runs[2] = without(runs[2], "nll")
    found = learning_rate.facts(Pool([Cohort.open(write_cohort(tmp_path / "c", runs))]))
    nll, accuracy = learning_rate.draw(found).axes
    assert list(np.asarray(nll.lines[-1].get_xdata())) == [1e-3]
    assert list(np.asarray(accuracy.lines[-1].get_xdata())) == [3e-4, 1e-3]


def test_missing_values_are_not_taken_for_one_learning_rate(tmp_path: Path) -> None:
    runs = trained_with(1e-3, 1e-3, 3e-4, 3e-4)
    runs[2] = replace(runs[2], target_diverged=(100,))
    pool = Pool([Cohort.open(write_cohort(tmp_path / "c", runs))])
    with refused("empty: held-out … 1 … 2"):
        learning_rate.facts(pool)
