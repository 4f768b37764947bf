"""The facts of the page are those the library computes."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkwise.study import Cohort
from checkwise.study.figures import median_run
from checkwise.study.report.facts import cohort_facts
from tests.refusals import refused
from tests.study.cohorts import demo_like, tiny_runs, write_cohort


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Cohort:
    return Cohort.open(demo_like(tmp_path_factory.mktemp("demo"), runs_per_algorithm=3))


def test_contrasts_are_those_of_compare(cohort: Cohort) -> None:
    facts = cohort_facts(cohort, ["ac-nc", "ac-nll"])
    for rule in ("ac-nc", "ac-nll"):
        expected = cohort.compare([rule]).set_index("metric")
        for row in facts.contrasts(rule):
            assert row.mean == expected.loc[row.metric, "mean"]
            assert row.low == expected.loc[row.metric, "low"]
            assert row.wins == expected.loc[row.metric, "wins"]
    split = cohort.compare(["ac-nc"], by=["algorithm"]).set_index(["algorithm", "metric"])
    for algorithm, rows in facts.by_algorithm.items():
        for row in rows:
            assert row.mean == split.loc[(algorithm, row.metric), "mean"]


def test_levels_differ_by_the_mean_difference(cohort: Cohort) -> None:
    facts = cohort_facts(cohort, ["ac-nc"])
    for row in facts.contrasts("ac-nc"):
        before, after = facts.levels["source-acc"][row.metric], facts.levels["ac-nc"][row.metric]
        assert after - before == pytest.approx(row.mean)
    accuracy = cohort.evaluate("source-acc")["target_accuracy"].mean()
    assert facts.levels["source-acc"]["target_accuracy"] == pytest.approx(100 * accuracy)


def test_counts_of_what_was_left_out(tmp_path: Path) -> None:
    facts = cohort_facts(Cohort.open(write_cohort(tmp_path / "c", tiny_runs())), ["ac-nc"])
    assert (facts.runs, facts.unfinished, facts.wrecked, facts.diverged) == (3, 1, 0, 1)
    assert (facts.role, facts.algorithms) == ("development", ("ERM", "IRM"))
    usual, ours = facts.source
    assert (usual.rule, usual.differ) == ("source-acc", 0)
    assert (ours.rule, ours.differ, ours.alone, ours.median_eligible) == ("ac-nc", 2, 1, 2)
    assert ours.mean_gap_pp == pytest.approx(1 / 3)


def test_the_example_is_chosen_without_looking_at_a_target(tmp_path: Path) -> None:
    assert median_run([5, 1, 3]) == 2
    assert median_run([2, 1, 2, 9]) == 0
    facts = cohort_facts(Cohort.open(write_cohort(tmp_path / "c", tiny_runs())), ["ac-nc"])
    assert str(facts.example.run) == "PACS-ERM-sketch-h0-t0"
    assert (facts.example.step, facts.example.feasible_steps) == (200, (100, 200))


def test_the_first_rule_has_to_choose_a_checkpoint(cohort: Cohort) -> None:
    with refused("unsupported: ac-mean"):
        cohort_facts(cohort, ["ac-mean", "ac-nc"])


def test_the_reference_alone_is_nothing_to_compare(cohort: Cohort) -> None:
    with refused("value"):
        cohort_facts(cohort, ["source-acc"])
