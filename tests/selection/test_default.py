"""Where no rule is named, the best rule that the data allow is used, and the answer says why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import checkwise as cw
from tests.refusals import refused


def run_with(*metrics: str, **facts: Any) -> cw.Trajectory:
    """Two near-best checkpoints, of which the second is the more reliable by every metric."""
    values: dict[str, Any] = {"accuracy": [[0.900], [0.896], [0.80]]}
    values |= {name: [[0.7], [0.4], [0.3]] for name in metrics}
    return cw.Trajectory(steps=[100, 200, 300], domains=["val"], values=values, **facts)


@pytest.mark.parametrize(
    ("metrics", "rule", "reason"),
    [
        (("nll", "ece", "cwece"), "ac-nc", ""),
        (("nll", "ece"), "ac-nll", "there is no cwece; ac-nc needs it"),
        (("ece", "cwece"), "ac-cwece", "there is no nll; ac-nc needs it"),
        (("ece", "brier"), "ac-ece", "there is no nll and no cwece; ac-nc needs them"),
        (("brier",), "source-acc", "there is no nll and no cwece; ac-nc needs them"),
        ((), "source-acc", "there is accuracy alone; ac-nc needs nll and cwece too"),
    ],
)
def test_the_rule_follows_from_the_metrics(
    metrics: tuple[str, ...], rule: str, reason: str
) -> None:
    run = run_with(*metrics)
    chosen = cw.select(run)
    assert (chosen.rule, chosen.reason) == (rule, reason)
    assert chosen.as_dict()["rule"] == rule
    assert chosen.as_dict()["rule_reason"] == (reason or None)
    assert chosen.step == cw.select(run, rule).step
    if reason:
        assert "not compared: there is" in chosen.explain()
    else:
        assert chosen.explain() == cw.select(run, rule).explain()


def test_a_rule_that_was_named_is_refused_where_the_data_do_not_allow_it() -> None:
    with refused("missing: ac-nc … cwece"):
        cw.select(run_with("nll"), "ac-nc")
    assert cw.select(run_with("nll"), "ac-nll").reason == ""


def test_many_runs_with_different_data_get_a_rule_each() -> None:
    runs = {"a": run_with(), "b": run_with("nll"), "c": run_with("nll", "cwece"), "d": run_with()}
    many = cw.select_many(runs)
    assert list(many) == list(runs)
    assert {key: s.rule for key, s in many.items()} == {
        "a": "source-acc",
        "b": "ac-nll",
        "c": "ac-nc",
        "d": "source-acc",
    }
    for key, run in runs.items():
        assert many[key].as_dict() == cw.select(run).as_dict()


def test_a_mean_over_domains_serves_only_the_equal_mean() -> None:
    run = cw.Trajectory(
        steps=[1, 2],
        domains=["a", "b"],
        values={"accuracy": [[0.8, 0.8], [0.8, 0.8]]},
        pooled={"nll": [0.5, 0.4]},
    )
    assert cw.select(run).rule == "ac-nll"
    weighed = cw.select(run, worst_domain=True)
    assert weighed.rule == "source-acc"
    assert "nll and cwece" in weighed.reason


def test_a_parameter_of_a_rule_that_the_data_do_not_allow_is_refused() -> None:
    with refused("missing: `delta_pp` … ac-early") as refusal:
        cw.select(run_with(), delta_pp=1)
    assert "accuracy alone" in str(refusal.value)
    with refused("missing"):
        cw.select_many({"only": run_with()}, delta_pp=1)
    assert cw.select(run_with("nll"), delta_pp=20).step == 300


@pytest.mark.parametrize(
    ("counts", "delta", "said"),
    [
        ([48], 0.5, "48 validation examples: one is 2.08 points, more than the tolerance of 0.5, "
                    "which keeps only ties with the best"),
        ([48], 2.0, "one is 2.08 points"),
        ([48], 2.1, ""),
        ([48], 0, ""),
        ([200], 0.5, ""),
        ([40, 50], 0.5, "40 and 50 validation examples: one is at least 1.00 points, more than "
                        "the tolerance of 0.5"),
    ],
)  # fmt: skip
def test_a_tolerance_below_one_example_is_said(counts: list[int], delta: object, said: str) -> None:
    correct = np.array([[n // 2 for n in counts], [n // 2 + 1 for n in counts]])
    run = cw.Trajectory(
        steps=[1, 2],
        domains=[f"d{e}" for e in range(len(counts))],
        values={"accuracy": correct / counts, "nll": np.ones_like(correct)},
        counts=counts,
        correct=correct,
    )
    chosen = cw.select(run, "ac-nll", delta_pp=delta)
    assert said in chosen.explain()
    assert ("validation examples" in chosen.explain()) == bool(said)
    assert any("validation examples" in note for note in chosen.as_dict()["notes"]) == bool(said)


def test_means_over_unlike_sets_can_be_nearer_than_one_example() -> None:
    """One answer more in a and one fewer in b are 1.25 − 1 points: within 0.5, and no tie."""
    correct = np.array([[20, 26], [21, 25]])
    run = cw.Trajectory(
        steps=[1, 2],
        domains=["a", "b"],
        values={"accuracy": correct / [40, 50], "nll": np.array([[1, 1], [0.5, 0.5]])},
        counts=[40, 50],
        correct=correct,
    )
    chosen = cw.select(run, "ac-nll", delta_pp=0.5)
    assert len(chosen.feasible_steps) == 2
    assert "at least 1.00 points" in chosen.explain()
    assert "only ties" not in chosen.explain()


@pytest.mark.parametrize(
    ("steps", "accuracy", "nll", "said"),
    [
        ([5, 10], [0.96, 0.95], [0.1, 0.2], "no later one has a higher accuracy"),
        ([5, 10], [0.960, 0.962], [0.1, 0.2], "one that was not recorded might do as well"),
        ([0, 10], [0.96, 0.95], [0.1, 0.2], "It is step 0, and no later checkpoint"),
    ],
)
def test_the_first_checkpoint_is_named_without_a_verdict_on_learning(
    steps: list[int], accuracy: list[float], nll: list[float], said: str
) -> None:
    run = cw.Trajectory(
        steps=steps, domains=["val"], values={"accuracy": np.c_[accuracy], "nll": np.c_[nll]}
    )
    words = cw.select(run, "ac-nll").explain()
    assert said in words
    assert "learning" not in words


@pytest.mark.parametrize("given", ["run.csv", {"step": [1], "accuracy": [0.5]}, None])
def test_what_is_no_trajectory_is_told_how_to_become_one(given: Any) -> None:
    with refused("value: checkwise.load"):
        cw.select(given)
    with refused("value"):
        cw.select_many(given)
