"""Bounds against hand calculations and against simulation."""

from __future__ import annotations

from dataclasses import replace
from math import log, sqrt

import numpy as np
import pytest

import checkwise as cw
from checkwise.statistics import Stratified, regret, regret_of_worst_domain
from tests.refusals import refused


def counted(counts: list[int] | None = None) -> cw.Trajectory:
    return cw.Trajectory(
        steps=[0, 100],
        domains=["a", "b"],
        values={
            "accuracy": [[0.9, 0.8], [0.9, 0.7]],
            "nll": [[1, 1], [1, 1]],
            "cwece": [[0, 0], [0, 0]],
        },
        counts=counts,
    )


def test_the_radius_by_hand() -> None:
    # T = 51, E = 3, n = 400 each, alpha = 0.05: 100·√(log(2040)/18 · 3/400)
    assert cw.source_accuracy_radius(51, [400, 400, 400]) == pytest.approx(
        100 * sqrt(log(2040) / 18 * 3 / 400), rel=1e-12
    )
    # one domain with all the weight is Hoeffding for that domain alone
    assert cw.source_accuracy_radius(1, [100, 7], 0.1, [1.0, 0.0]) == pytest.approx(
        100 * sqrt(log(20) / 200), rel=1e-12
    )


def test_weights_by_sample_give_the_bound_of_the_pooled_sample() -> None:
    counts = [50, 150, 300]
    by_sample = cw.source_accuracy_radius(10, counts, 0.05, [n / 500 for n in counts])
    assert by_sample == pytest.approx(cw.source_accuracy_radius(10, [500]), rel=1e-12)


def test_a_selection_states_its_bound_with_conditions() -> None:
    bound = cw.select(counted([10, 20]), delta_pp=0.5).guarantee(alpha=0.1)
    radius = 100 * sqrt(log(40) / 2 * (0.25 / 10 + 0.25 / 20))
    assert bound.radius_pp == pytest.approx(radius)
    assert bound.bound_pp == pytest.approx(0.5 + 2 * radius)
    text = str(bound)
    assert "early stopping or tuning" in text
    assert "no rule that reads source data alone is best for every target" in text


def test_source_accuracy_has_a_tolerance_of_zero_and_the_worst_domain_its_own_radius() -> None:
    run = counted([10, 20])
    best = cw.select(run, "source-acc").guarantee()
    assert best.bound_pp == 2 * best.radius_pp
    worst = cw.select(run, worst_domain=True).guarantee(0.05)
    assert worst.radius_pp == pytest.approx(100 * sqrt(log(2 * 2 * 2 / 0.05) / 20))


def test_no_bound_without_counts_or_for_rules_without_a_tolerance() -> None:
    with refused("unsupported: `n`"):
        cw.select(counted()).guarantee()
    with refused("unsupported: pure-nll"):
        cw.select(counted([10, 20]), "pure-nll", guard=False).guarantee()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, [10]), "value: `n_checkpoints` … 1 … 0"),
        ((5, []), "value: 1"),
        ((5, [0]), "value: 1"),
        ((5, [10], 0.0), "value: `alpha` … 0 … 1"),
        ((5, [10], 0.05, [0.5]), "value: 1"),
    ],
)
def test_bad_arguments_are_refused(arguments: tuple[object, ...], message: str) -> None:
    with refused(message):
        cw.source_accuracy_radius(*arguments)  # type: ignore[arg-type]


def test_the_bound_holds_in_simulation() -> None:
    """Every feasible checkpoint stays within the bound in at least 1 − alpha of the draws."""
    rng = np.random.default_rng(7)
    counts = np.array([60, 90, 120])
    population = rng.uniform(0.6, 0.9, size=(20, 3))
    truth = 100 * population.mean(axis=1)
    alpha, delta = 0.2, 0.5
    bound = delta + 2 * cw.source_accuracy_radius(20, counts.tolist(), alpha)
    failures = 0
    for _ in range(300):
        correct = rng.binomial(counts, population)
        run = cw.Trajectory(
            steps=np.arange(20),
            domains=list("abc"),
            values={"accuracy": correct / counts},
            counts=counts,
            correct=correct,
        )
        feasible = cw.select(run, "ac-early", delta_pp=delta).ranking.eligible
        failures += bool((truth[feasible] < truth.max() - bound).any())
    assert failures / 300 <= alpha


def predicted(groups: bool = False) -> cw.Trajectory:
    """Four checkpoints whose answers to 2 × 300 examples differ on a few of them."""
    rng = np.random.default_rng(3)
    labels = {name: rng.integers(0, 3, 300) for name in ("a", "b")}
    base = {name: 2 * rng.normal(size=(300, 3)) + 3 * np.eye(3)[labels[name]] for name in labels}
    predictions = {
        step: {
            name: (base[name] + 0.4 * rng.normal(size=(300, 3)), labels[name]) for name in labels
        }
        for step in (100, 200, 300, 400)
    }
    units = {name: np.repeat(np.arange(100), 3) for name in labels}
    return cw.Trajectory.from_predictions(predictions, groups=units if groups else None)


@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("worst_domain", [False, True])
def test_shared_examples_give_a_narrower_bound(groups: bool, worst_domain: bool) -> None:
    run = predicted(groups)
    assert run.examples is not None
    selection = cw.select(run, "ac-nll", worst_domain=worst_domain)
    bound = selection.guarantee(alpha=0.1)
    assert bound.paired is not None
    sample = Stratified(run.examples.correct, [0.5, 0.5], run.examples.groups)
    bounds = regret_of_worst_domain if worst_domain else regret
    expected = 100 * bounds(sample, alpha=0.1).upper[selection.index]
    assert bound.paired.bound_pp == pytest.approx(expected, rel=1e-12)
    assert bound.tightest_pp == bound.paired.bound_pp < bound.bound_pp
    assert bound.paired.bound_pp < bound.bound_pp / 2 or groups
    assert ("groups" in bound.paired.conditions[0]) == groups
    text = str(bound)
    assert f"at most {bound.paired.bound_pp:.2f} points" in text
    beside = text.partition(f"alone the bound is {bound.bound_pp:.2f} points")[2]
    assert "early stopping or tuning on them voids the bound" in beside
    assert ("validation examples are independent" in beside) == groups
    assert selection.guarantee(alpha=0.1, paired=False).paired is None


def test_a_record_has_the_paired_bound_where_it_is_asked_for() -> None:
    selection = cw.select(predicted())
    assert "paired" not in selection.as_dict()["guarantee"]
    stated = selection.as_dict(0.05, paired=True)["guarantee"]
    assert stated["paired"]["bound_pp"] == selection.guarantee().tightest_pp
    assert stated["bound_pp"] == selection.as_dict()["guarantee"]["bound_pp"]


def test_checkpoints_whose_weights_are_gone_count_in_the_paired_bound() -> None:
    run = predicted()
    all_there = cw.select(run, "source-acc").guarantee().tightest_pp
    gone = replace(run, logged=tuple(range(0, 1000, 100)))
    assert gone.evaluated == 10
    assert cw.select(gone, "source-acc").guarantee().tightest_pp > all_there


def test_a_choice_further_from_the_best_than_delta_counts_its_own_gap() -> None:
    run = predicted()
    selection = cw.select(run, "ac-nll", delta_pp=0, tolerance="paired")
    assert selection.gap_pp
    bound = selection.guarantee()
    assert bound.bound_pp == pytest.approx(selection.gap_pp + 2 * bound.radius_pp)
