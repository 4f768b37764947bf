"""PAIR-s style rules from training logs, worked out on paper."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import checkwise as cw
from checkwise.records import Trajectory
from checkwise.study.protocols import PAIR_LAST10, PAIR_VALFILTER, with_training_terms
from tests.refusals import refused

RULES = {rule.name: rule for rule in (PAIR_LAST10, PAIR_VALFILTER)}


def run(accuracy: list[float]) -> Trajectory:
    t = len(accuracy)
    return Trajectory(
        steps=np.arange(t),
        domains=["val"],
        counts=[1000],
        values={"accuracy": np.array(accuracy)[:, None]},
    )


def logged(folder: Path, nll: list[Any], penalty: list[Any]) -> Path:
    lines = [
        {"step": t, "train": {"loss": 0.0, "nll": a, "penalty": b}}
        for t, (a, b) in enumerate(zip(nll, penalty, strict=True))
    ]
    folder.mkdir(exist_ok=True)
    (folder / "source.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def chosen(folder: Path, rule: str, accuracy: list[float], nll: Any, penalty: Any, **p: Any) -> int:
    trajectory = with_training_terms(run(accuracy), logged(folder / "run", nll, penalty))
    return cw.select(trajectory, RULES[rule], **p).step


def test_last10_takes_the_most_accurate_of_the_late_checkpoints_with_a_low_penalty(
    tmp_path: Path,
) -> None:
    # Scores run from 0 (step 3) to 1 (step 0): the best tenth is a penalty of at most 0.1.
    penalty = [1.0, 0.5, 0.3, 0.0, 0.2, 0.1, 0.09, 0.3, 0.1, 0.4, 0.5, 0.2]
    accuracy = [0.5, 0.99, 0.6, 0.98, 0.95, 0.7, 0.8, 0.9, 0.75, 0.97, 0.96, 0.6]
    nll = [0.0] * 12
    # Late are steps 2–11, of which 3, 5, 6 and 8 score well; 3 is the most accurate.
    assert chosen(tmp_path, "pair-last10", accuracy, nll, penalty) == 3
    # With two more records step 3 is no longer late.
    more = [*accuracy, 0.5, 0.5], [*nll, 0.0, 0.0], [*penalty, 0.9, 0.9]
    assert chosen(tmp_path, "pair-last10", *more) == 6


def test_last10_does_not_fall_back_to_the_lowest_accuracy(tmp_path: Path) -> None:
    # The only low penalty is early, so no late checkpoint passes the filter.
    penalty = [0.0, *[1.0] * 10]
    accuracy = [0.5, 0.6, 0.7, 0.9, 0.8, 0.65, 0.55, 0.75, 0.7, 0.7, 0.6]
    assert chosen(tmp_path, "pair-last10", accuracy, [0.0] * 11, penalty) == 3


def test_valfilter_takes_the_best_score_near_the_best_accuracy(tmp_path: Path) -> None:
    accuracy = [0.90, 0.895, 0.894, 0.90]
    penalty = [0.4, 0.2, 0.1, 0.3]
    assert chosen(tmp_path, "pair-valfilter", accuracy, [0.0] * 4, penalty) == 1
    assert chosen(tmp_path, "pair-valfilter", accuracy, [0.0] * 4, penalty, delta_pp=1) == 2
    assert chosen(tmp_path, "pair-valfilter", accuracy, [0.0] * 4, penalty, delta_pp=0) == 3


def test_a_negative_penalty_counts_by_its_size_and_the_loss_decides_between_equals(
    tmp_path: Path,
) -> None:
    same = [0.9] * 3
    assert chosen(tmp_path, "pair-valfilter", same, [0.0] * 3, [-0.5, 0.1, -0.2]) == 1
    assert chosen(tmp_path, "pair-valfilter", same, [3.0, 2.0, 1.0], [0.1] * 3) == 2
    weighed = {"loss_weight": 1.0}
    assert (
        chosen(tmp_path, "pair-valfilter", same, [0.5, 0.0, 0.0], [0.0, 0.6, 0.7], **weighed) == 0
    )


def test_a_term_that_was_not_finite_is_never_chosen(tmp_path: Path) -> None:
    assert chosen(tmp_path, "pair-valfilter", [0.9] * 3, [0, 0, 0], [None, 0.3, 0.2]) == 2


def test_runs_without_a_penalty_are_refused(tmp_path: Path) -> None:
    (tmp_path / "source.jsonl").write_text('{"step":0,"train":{"loss":1.0,"nll":1.0}}\n')
    with refused("missing: PAIR … VREx or IRM"):
        with_training_terms(run([0.9]), tmp_path)
