"""How sure a choice is: in sentences, and with how many more examples it would be sure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.sure import sureness
from checkwise.sure.words import ENOUGH, TIMES, share_with
from tests.selection.example_runs import outputs

N = 40


def unclear() -> cw.Selection:
    """Checkpoints that a few examples can hardly tell apart."""
    return cw.select(cw.Trajectory.from_predictions(outputs(0, steps=6, sizes=(N, N), gain=0.3)))


def literal_share(s: cw.Selection, times: int, draws: int) -> float:
    """Draw so many times as many rows, build a run of them, and select, again and again."""
    rng = np.random.default_rng(7)
    assert s.trajectory.examples is not None
    logits = {step: s.trajectory.examples.logits(step) for step in s.trajectory.steps.tolist()}
    same = 0
    for _ in range(draws):
        rows = {name: rng.integers(0, N, times * N) for name in s.trajectory.domains}
        drawn = {
            step: {name: (z[rows[name]], y[rows[name]]) for name, (z, y) in domains.items()}
            for step, domains in logits.items()
        }
        same += cw.select(cw.Trajectory.from_predictions(drawn), "ac-nc").step == s.step
    return same / draws


@pytest.mark.parametrize("times", [1, 4])
def test_the_share_with_more_examples_is_that_of_drawing_more(times: int) -> None:
    chosen = unclear()
    literal = literal_share(chosen, times, 150)
    assert share_with(chosen, times) == pytest.approx(literal, abs=0.15)  # 3 standard errors


def test_more_examples_are_tried_until_they_are_enough() -> None:
    sure = sureness(unclear(), draws=300)
    assert sure.stability.reported_share < ENOUGH
    assert [times for times, _ in sure.more] == list(TIMES[: len(sure.more)])
    assert all(share < ENOUGH for _, share in sure.more[:-1])
    times, share = sure.more[-1]
    assert f"{times} times as many validation examples ({times * 2 * N:,})" in sure.advice
    assert f"{share:.0%}" in sure.advice
    assert str(sure.stability) in sure.said
    assert str(sure).startswith("How sure: Step ")


def test_a_clear_choice_needs_no_more() -> None:
    z = np.random.default_rng(0).normal(size=(300, 3))
    y = z.argmax(1)
    y[:20] = (y[:20] + 1) % 3
    run = cw.Trajectory.from_predictions({1: {"val": (z, y)}, 2: {"val": (-z, y)}})
    sure = sureness(cw.select(run), draws=200)
    assert sure.more == ()
    assert sure.advice == "More validation examples would change little."


def test_explain_ends_with_how_sure() -> None:
    chosen = unclear()
    assert chosen.explain().endswith(str(chosen.sureness))
    without = cw.select(replace(chosen.trajectory, examples=None))
    assert "How sure" not in without.explain()


def test_how_sure_is_said_under_a_tolerance_of_the_data() -> None:
    chosen = cw.select(unclear().trajectory, tolerance="paired")
    assert chosen.explain().endswith(str(chosen.sureness))
    assert chosen.sureness.stability.draws == 1000
    assert chosen.sureness.more


def test_a_class_that_nobody_predicts_is_no_reason_to_fail() -> None:
    labels = np.arange(300) % 6 + 1

    def logits(seed: int) -> Any:
        noise = np.random.default_rng(seed).normal(size=(300, 7))
        return 8 * np.eye(7)[labels] + noise - 12 * np.eye(7)[0]

    run = cw.Trajectory.from_predictions({s: {"v": (logits(s), labels)} for s in (1, 2)})
    for rule in ("ac-ece", "ac-ne", "ac-nc"):
        share = cw.select(run, rule).stability(draws=50).share
        assert sum(share.values()) == pytest.approx(1)


def test_one_independent_example_makes_nobody_sure() -> None:
    rng = np.random.default_rng(0)
    labels = np.array([0])
    alone = {s: {"art": (rng.normal(size=(1, 3)), labels)} for s in (1, 2)}
    sure = cw.select(cw.Trajectory.from_predictions(alone)).sureness
    assert "art has one independent example" in sure.advice
    many = {s: {"art": (rng.normal(size=(8, 3)), np.arange(8) % 3)} for s in (1, 2)}
    grouped = cw.Trajectory.from_predictions(many, groups={"art": ["a"] * 8})
    assert "art has one independent example" in cw.select(grouped).sureness.advice
    assert "independent" not in cw.select(cw.Trajectory.from_predictions(many)).sureness.advice
