"""Validation with hardly an error left: said first, and the guard takes the earliest feasible."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import checkwise as cw
from checkwise.selection.saturation import FEW_ERRORS

N = 258


def run(wrong: list[int], n: int = N) -> cw.Trajectory:
    """One domain; NLL falls from checkpoint to checkpoint."""
    steps = len(wrong)
    return cw.Trajectory(
        steps=[100 * (t + 1) for t in range(steps)],
        domains=["val"],
        values={
            "accuracy": [[(n - e) / n] for e in wrong],
            "nll": [[0.5 - 0.01 * t] for t in range(steps)],
            "cwece": [[0.02 - 0.001 * t] for t in range(steps)],
        },
        counts=[n],
        correct=[[n - e] for e in wrong],
    )


@pytest.mark.parametrize("errors", [0, 1, 2, 5])
def test_few_errors_are_said_first_and_the_guard_takes_the_earliest(errors: int) -> None:
    trajectory = run([30, errors + 1, errors, errors, errors])
    plain = cw.select(trajectory)
    assert plain.step == 500
    assert plain.explain().startswith(f"Saturated: the best checkpoint has {errors} error")
    assert "step 200, is the safer choice" in plain.explain()
    assert plain.as_dict()["saturation"]["saturated"] is True
    safe = cw.select(trajectory, guard=True)
    assert (safe.rule, safe.step, safe.params["delta_pp"]) == ("ac-early", 200, Fraction(1, 2))
    assert "exploratory" in safe.explain()
    assert "ac-nc" in safe.explain()
    json.dumps(safe.as_dict(), allow_nan=False)


def test_a_perfect_score_is_saturated_however_many_examples_there_are() -> None:
    trajectory = run([30, 2, 0, 0, 0])
    unknown = replace(trajectory, counts=None, correct=None)
    plain = cw.select(unknown)
    assert plain.explain().startswith(
        "Saturated: the best checkpoint has 0 errors in all validation examples"
    )
    state = plain.as_dict()["saturation"]
    assert (state["errors"], state["examples"], state["saturated"]) == (0, None, True)
    assert cw.select(unknown, guard=True).step == 300
    almost = replace(run([30, 2, 1, 1, 1]), counts=None, correct=None)
    assert cw.select(almost).saturation is None


def test_enough_errors_change_nothing() -> None:
    trajectory = run([30, 7, 6, 6, 6])
    assert "Saturated" not in cw.select(trajectory).explain()
    assert cw.select(trajectory, guard=True).as_dict() == cw.select(trajectory).as_dict()


@pytest.mark.parametrize("rule", ["source-acc", "ac-early", "ac-random"])
def test_rules_that_look_at_no_probability_need_no_guard(rule: str) -> None:
    trajectory = run([3, 2, 1, 1])
    assert "Saturated" not in cw.select(trajectory, rule).explain()
    assert cw.select(trajectory, rule, guard=True).rule == rule


def test_a_rule_without_a_tolerance_is_guarded_with_the_usual_one() -> None:
    trajectory = run([30, 2, 2, 9])
    chosen = cw.select(trajectory, "pure-nll")
    assert chosen.step == 400
    assert "ac-early is the safer rule" in chosen.explain()
    assert cw.select(trajectory, "pure-nll", guard=True).step == 200


def test_without_counts_nothing_is_known() -> None:
    trajectory = cw.Trajectory(
        steps=[1, 2], domains=["val"], values={"accuracy": [[0.99], [0.99]], "nll": [[0.2], [0.1]]}
    )
    chosen = cw.select(trajectory, "ac-nll", guard=True)
    assert chosen.saturation is None
    assert chosen.rule == "ac-nll"
    assert chosen.as_dict()["saturation"] is None


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=8),
    st.lists(st.integers(0, 9), min_size=8, max_size=8),
)
def test_the_facts_are_those_of_a_literal_count(wrong: list[int], losses: list[int]) -> None:
    n = 100
    nll = losses[: len(wrong)]
    trajectory = cw.Trajectory(
        steps=list(range(len(wrong))),
        domains=["a", "b"],
        values={
            "accuracy": [[(n - e) / n, 1.0] for e in wrong],
            "nll": [[float(v)] * 2 for v in nll],
        },
        counts=[n, 50],
        correct=[[n - e, 50] for e in wrong],
    )
    chosen = cw.select(trajectory, "ac-nll", delta_pp=2)
    state = chosen.saturation
    assert state is not None
    assert (state.errors, state.examples) == (min(wrong), 150)
    assert state.saturated == (min(wrong) <= FEW_ERRORS)
    feasible = [t for t, e in enumerate(wrong) if Fraction(e - min(wrong), 2) <= 2]
    pairs = list(combinations(feasible, 2))
    equal = [wrong[i] == wrong[j] for i, j in pairs]
    assert state.tied == pytest.approx(float(np.mean(equal)) if pairs else 0.0)
    if len(feasible) >= 4:
        lower = [nll[j] < nll[i] for i, j in pairs]
        assert state.falling["nll"] == pytest.approx(float(np.mean(lower)))
    else:
        assert state.falling == {}


def test_many_runs_and_a_live_selection_are_guarded_alike() -> None:
    trajectory = run([30, 2, 2, 2])
    other = run([30, 20, 20, 20])
    chosen = cw.select_many({"few": trajectory, "many": other}, "ac-nc", guard=True)
    assert [chosen[key].rule for key in ("few", "many")] == ["ac-early", "ac-nc"]
    live = cw.LiveSelector("ac-nc", guard=True)
    for t, step in enumerate(trajectory.steps):
        row = {name: float(values[t, 0]) for name, values in trajectory.values.items()}
        live.add(int(step), {"val": {**row, "n": N}})
    assert live.choice == 200
    assert live.droppable == (100,)


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=8))
def test_errors_are_those_of_the_most_accurate_checkpoint(wrong: list[tuple[int, int]]) -> None:
    counts = (100, 20)  # of unequal size, so that fewer errors may be a lower mean accuracy
    correct = [[n - e for n, e in zip(counts, pair, strict=True)] for pair in wrong]
    accuracy = [[c / n for n, c in zip(counts, row, strict=True)] for row in correct]
    trajectory = cw.Trajectory(
        steps=list(range(len(wrong))),
        domains=["a", "b"],
        values={"accuracy": accuracy, "nll": [[1.0, 1.0]] * len(wrong)},
        counts=list(counts),
        correct=correct,
    )
    exact = [Fraction(a, 100) + Fraction(b, 20) for a, b in wrong]
    earliest = exact.index(min(exact))
    state = cw.select(trajectory, "ac-nll").saturation
    assert state is not None
    assert state.errors == sum(wrong[earliest])


def test_a_checkpoint_with_fewer_errors_that_is_less_accurate_does_not_count() -> None:
    trajectory = cw.Trajectory(
        steps=[0, 1],
        domains=["large", "small"],
        values={"accuracy": [[0.95, 1.0], [1.0, 0.8]], "nll": [[1.0, 1.0]] * 2},
        counts=[100, 20],
        correct=[[95, 20], [100, 16]],
    )
    state = cw.select(trajectory, "ac-nll").saturation
    assert state is not None
    assert state.errors == 5
