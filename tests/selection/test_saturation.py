"""Validation with hardly an error left: the guard takes the earliest near-best checkpoint."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import checkwise as cw
from checkwise.selection import FEW_ERRORS, KeepMembers, members

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


@pytest.mark.parametrize("errors", [0, 5])
def test_few_errors_make_the_earliest_near_best_checkpoint_the_answer(errors: int) -> None:
    trajectory = run([30, errors + 1, errors, errors, errors])
    safe = cw.select(trajectory)
    assert (safe.rule, safe.step, safe.params["delta_pp"]) == ("ac-nc", 200, 0.5)
    found = {"acted": True, "errors": errors, "examples": N, "without": 500}
    assert json.loads(safe.to_json())["guard"] == found
    assert "--no-guard: step 500" in safe.explain()
    assert safe.feasible_steps == (200, 300, 400, 500)
    plain = cw.select(trajectory, guard=False)
    assert plain.step == 500
    assert plain.as_dict()["guard"] is None
    assert "200" not in plain.explain()


def test_one_answer_where_no_near_best_checkpoint_makes_an_error() -> None:
    chosen = cw.select(run([30, 0, 0, 0], n=150))
    assert chosen.explain().startswith("3 checkpoints make no error on validation")
    assert "Use step 200, the earliest (--no-guard: step 400)." in chosen.explain()


def test_a_perfect_score_is_saturated_however_many_examples_there_are() -> None:
    unknown = replace(run([30, 2, 0, 0, 0]), counts=None, correct=None)
    chosen = cw.select(unknown)
    assert chosen.step == 300
    found = {"acted": True, "errors": 0, "examples": None, "without": 500}
    assert chosen.as_dict()["guard"] == found
    almost = replace(run([30, 2, 1, 1, 1]), counts=None, correct=None)
    chosen = cw.select(almost)
    assert chosen.step == 500
    unsaid = {"acted": False, "errors": None, "examples": None, "without": 500}
    assert chosen.as_dict()["guard"] == unsaid


def test_enough_errors_change_nothing() -> None:
    trajectory = run([30, 7, 6, 6, 6])
    on, off = (cw.select(trajectory, guard=guard) for guard in (True, False))
    assert {**on.as_dict(), "guard": None} == off.as_dict()
    assert on.explain() == off.explain()


@pytest.mark.parametrize("rule", ["source-acc", "ac-early", "ac-random"])
def test_rules_that_look_at_no_probability_are_left_alone(rule: str) -> None:
    trajectory = run([3, 2, 1, 1])
    on, off = (cw.select(trajectory, rule, guard=guard) for guard in (True, False))
    assert (on.step, on.guard_acted) == (off.step, False)


def test_a_rule_without_a_tolerance_is_guarded_and_then_has_a_bound() -> None:
    trajectory = run([30, 2, 2, 9])
    assert cw.select(trajectory, "pure-nll", guard=False).step == 400
    chosen = cw.select(trajectory, "pure-nll")
    assert (chosen.step, chosen.rule) == (200, "pure-nll")
    bound = chosen.guarantee()
    assert bound.bound_pp == pytest.approx(0.5 + 2 * bound.radius_pp)
    with pytest.raises(cw.NoGuaranteeError):
        cw.select(run([30, 20, 20, 20]), "pure-nll").guarantee()


@pytest.mark.parametrize(("delta", "without"), [("0", 400), ("0.1", 400), ("5", 500)])
def test_the_tolerance_is_half_a_point_whatever_was_asked(delta: str, without: int) -> None:
    trajectory = run([2, 2, 1, 0, 4], n=400)
    chosen = cw.select(trajectory, delta_pp=delta)
    assert (chosen.step, chosen.as_dict()["guard"]["without"]) == (100, without)
    bound = chosen.guarantee()
    assert bound.bound_pp == pytest.approx(0.5 + 2 * bound.radius_pp)


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=8),
    st.lists(st.integers(0, 9), min_size=8, max_size=8),
)
def test_the_choice_is_that_of_a_literal_version(
    wrong: list[tuple[int, int]], losses: list[int]
) -> None:
    counts = (100, 20)  # of unequal size, so that fewer errors may be a lower mean accuracy
    correct = [[n - e for n, e in zip(counts, pair, strict=True)] for pair in wrong]
    trajectory = cw.Trajectory(
        steps=list(range(len(wrong))),
        domains=["a", "b"],
        values={
            "accuracy": [[c / n for n, c in zip(counts, row, strict=True)] for row in correct],
            "nll": [[float(loss)] * 2 for loss in losses[: len(wrong)]],
        },
        counts=list(counts),
        correct=correct,
    )
    gaps = [Fraction(a, 2) + Fraction(5 * b, 2) for a, b in wrong]  # in points
    gaps = [gap - min(gaps) for gap in gaps]
    errors = sum(wrong[gaps.index(Fraction(0))])
    chosen, off = (cw.select(trajectory, "ac-nll", guard=guard) for guard in (True, False))
    assert chosen.saturation is not None
    assert (chosen.saturation.errors, chosen.saturation.examples) == (errors, 120)
    earliest = next(t for t, gap in enumerate(gaps) if gap <= Fraction(1, 2))
    assert chosen.step == (earliest if errors <= FEW_ERRORS else off.step)


def test_saved_predictions_are_guarded_and_so_is_how_sure(tmp_path: Path) -> None:
    labels = np.arange(120) % 3
    for t, step in enumerate((100, 200, 300)):
        logits = (1.0 + t) * np.eye(3)[labels]
        if not t:
            logits[:9] = -logits[:9]
        folder = tmp_path / f"step-{step:06d}"
        folder.mkdir()
        np.savez(folder / "val.npz", logits=logits, labels=labels)
    loaded = cw.load(tmp_path)
    chosen = cw.select(loaded)
    assert (chosen.step, cw.select(loaded, guard=False).step) == (200, 300)
    assert chosen.stability(50).reported_share == 1.0
    assert chosen.sureness.stability.reported == 200


def test_many_runs_and_a_live_selection_are_guarded_alike() -> None:
    trajectory = run([30, 2, 2, 2])
    other = run([30, 20, 20, 20])
    chosen = cw.select_many({"few": trajectory, "many": other}, "ac-nc")
    assert [chosen[key].guard_acted for key in ("few", "many")] == [True, False]
    assert cw.select_many({"few": trajectory}, guard=False)["few"].step == 400
    live = cw.LiveSelector("ac-nc")
    for t, step in enumerate(trajectory.steps):
        row = {name: float(values[t, 0]) for name, values in trajectory.values.items()}
        live.add(int(step), {"val": {**row, "n": N}})
    assert (live.choice, live.members()) == (200, (200,))
    assert live.keep == (200, 300, 400)


def test_an_average_is_of_one_checkpoint_where_validation_is_saturated() -> None:
    trajectory = run([2, 1, 0, 0], n=150)
    assert members(cw.select(trajectory)) == (300,)
    assert members(cw.select(trajectory, "source-acc")) == (300,)
    assert members(cw.select(trajectory, guard=False)) == (200, 300, 400)


@settings(max_examples=120, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=9
    ),
    st.sampled_from(["0", "0.1", "0.5", "3"]),
    st.sampled_from(["ac-nc", "ac-nll", "pure-nll", "source-acc", "ac-early"]),
    st.booleans(),
)
def test_what_is_dropped_is_never_chosen_later(
    rows: list[tuple[int, int, int]], delta: str, rule: str, guard: bool
) -> None:
    """Unequal sets: a better mean accuracy may have more errors, which ends the saturation."""
    takes: dict[str, Any] = {"delta_pp": delta} if cw.rules()[rule].accepts("delta_pp") else {}
    live = cw.LiveSelector(rule, guard=guard, **takes)
    dropped: set[int] = set()
    for step, (a, b, loss) in enumerate(rows):
        metrics = {"nll": float(loss), "cwece": 0.1 * loss}
        live.add(
            step,
            {
                "large": {"accuracy": (200 - a) / 200, "n": 200, **metrics},
                "small": {"accuracy": (40 - b) / 40, "n": 40, **metrics},
            },
        )
        chosen = cw.select(live.trajectory, rule, guard=guard, **takes)
        averaged = members(chosen)
        assert live.choice == chosen.step
        assert dropped.isdisjoint((chosen.step,)), "its weights are gone"
        assert chosen.step in live.keep
        dropped |= set(live.droppable)
        assert not dropped.intersection(live.keep)
        assert set(averaged) <= KeepMembers().keep(live.steps, live)


def test_the_setting_travels_with_journals(tmp_path: Path) -> None:
    for guard in (True, False):
        journal = tmp_path / f"{guard}.jsonl"
        with cw.LiveSelector("ac-nll", guard=guard, journal=journal) as live:
            for step, loss in ((1, 0.5), (2, 0.4), (3, 0.3)):
                live.add(step, {"val": {"accuracy": 1.0, "nll": loss, "n": 50}})
            header = json.loads(journal.read_text().splitlines()[0])
            assert header["choice"].get("guard", True) is guard
            assert live.choice == (1 if guard else 3)
        assert cw.LiveSelector.from_journal(journal).choice == (1 if guard else 3)
        assert cw.select(cw.load(journal)).step == (1 if guard else 3)
        assert cw.select_many({"": cw.load(journal)})[""].step == (1 if guard else 3)


def test_how_sure_does_not_call_the_guards_choice_settled() -> None:
    rng = np.random.default_rng(3)
    labels = np.arange(200) % 4
    outputs = {}
    for step in range(100, 600, 100):
        logits = 4 * np.eye(4)[labels] + rng.normal(scale=0.3, size=(200, 4))
        logits[0] = -4 * np.eye(4)[labels[0]]
        outputs[step] = {"val": (logits * step / 100, labels)}
    chosen = cw.select(cw.Trajectory.from_predictions(outputs))
    assert chosen.guard_acted
    assert chosen.step == 100
    assert chosen.sureness.guarded
    assert not chosen.sureness.more
    free = cw.select(cw.Trajectory.from_predictions(outputs), guard=False)
    assert not free.sureness.guarded
