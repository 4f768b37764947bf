"""What trainers wrote is read as their own objects reported it, with the checkpoints they saved."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import checkwise as cw
from checkwise.readers import load_runs
from checkwise.records import Trajectory
from checkwise.selection.guard import Saturation
from tests.material.trainers.cases import Case, cases
from tests.refusals import refused

ALL = list(cases())
# Two loaders of Lightning have numbers, not names.
SETS = {"lightning": {"odd": "0", "even": "1"}}


def _saved(run: dict[str, Any]) -> list[dict[str, Any]]:
    """The evaluations that can be chosen: those with a checkpoint; without any, all."""
    saved = [e for e in run["evaluations"] if e["checkpoint"] is not None]
    return saved or run["evaluations"]


@pytest.mark.parametrize("case", ALL, ids=lambda case: f"{case.trainer}-{case.name}")
def test_a_log_is_read_as_the_trainer_reported_it(case: Case, tmp_path: Path) -> None:
    root = case.unpack(tmp_path)
    expected = case.expected()
    if not any(run["evaluations"] for run in expected):
        with refused("missing"):
            load_runs(root)
        return
    runs = [*load_runs(root).values()]
    assert len(runs) == len(expected)
    for run in expected:
        alike = [t for t in runs if len(t) == len(_saved(run))]
        assert any(_agrees(trajectory, run, root, case.trainer) for trajectory in alike)


def _agrees(trajectory: Trajectory, run: dict[str, Any], root: Path, trainer: str) -> bool:
    """Whether a trajectory has the accuracies, losses and checkpoints of the trainer's account."""
    account = _saved(run)
    names = SETS.get(trainer, {})
    for domain in account[0]["scores"]:
        column = trajectory.domains.index(names.get(domain, domain))
        for metric, reported in _scores(account, domain).items():
            if not np.allclose(trajectory.values[metric][:, column], reported, rtol=0, atol=1e-6):
                return False
    paths = [path and os.path.realpath(path) for path in trajectory.paths or ()]
    files = [e["checkpoint"] and os.path.realpath(root / e["checkpoint"]) for e in account]
    return paths == files if any(files) else not any(paths)


def _scores(account: list[dict[str, Any]], domain: str) -> dict[str, list[float]]:
    """What the trainer reported, under our names."""
    scores = [evaluation["scores"][domain] for evaluation in account]
    reported = {"nll": [score["loss"] for score in scores]}
    if "accuracy" in scores[0]:
        reported["accuracy"] = [score["accuracy"] for score in scores]
    elif "error_rate" in scores[0]:
        reported["accuracy"] = [1 - score["error_rate"] for score in scores]
    return reported


def timed_state(path: Path, n: int, right: Sequence[int], seconds: Sequence[float]) -> Path:
    """A log of transformers: how long evaluations took and how fast they were, rounded."""
    history = [
        {
            "step": 100 * (t + 1),
            "eval_accuracy": correct / n,
            "eval_loss": 0.9 - 0.1 * t,
            "eval_runtime": round(runtime, 4),
            "eval_samples_per_second": round(n / runtime, 3),
        }
        for t, (correct, runtime) in enumerate(zip(right, seconds, strict=True))
    ]
    path.write_text(json.dumps({"log_history": history, "global_step": 100 * len(right)}))
    return path


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 60_000), st.data())
def test_the_number_of_examples_of_transformers_is_right_or_unknown(n: int, data: Any) -> None:
    right = data.draw(st.lists(st.integers(0, n), min_size=2, max_size=6))
    seconds = [data.draw(st.floats(0.01, 500)) for _ in right]
    with TemporaryDirectory() as folder:
        place = timed_state(Path(folder) / "trainer_state.json", n, right, seconds)
        run = cw.load(place)
    if run.counts is not None:
        assert run.counts.tolist() == [n]
        assert run.correct is not None
        assert run.correct[:, 0].tolist() == right


def test_speeds_of_changing_or_unfitting_numbers_tell_nothing(tmp_path: Path) -> None:
    place = timed_state(tmp_path / "trainer_state.json", 300, [290, 296, 296], [27.1, 26.9, 27.2])
    assert cw.load(place).counts is not None
    chosen = cw.select(cw.load(place))
    assert (chosen.step, chosen.guard_acted, chosen.saturation) == (200, True, Saturation(4, 300))
    content = json.loads(place.read_text())
    content["log_history"][1]["eval_samples_per_second"] = 22.3
    place.write_text(json.dumps(content))
    chosen = cw.select(cw.load(place))
    assert (chosen.step, chosen.guard_acted, chosen.saturation) == (300, False, None)


def test_n_of_the_caller_lets_the_guard_act_and_is_refused_where_it_cannot_be(
    tmp_path: Path,
) -> None:
    log = tmp_path / "training.log"
    rows = ((0, 0.9750, 0.3), (1, 0.9963, 0.2), (2, 0.9963, 0.1))  # rounded: 3 of 800 wrong
    log.write_text(
        "epoch,val_accuracy,val_loss\n" + "".join(f"{t},{a},{loss}\n" for t, a, loss in rows)
    )
    assert cw.select(cw.load(log)).step == 2
    chosen = cw.select(cw.load(log, n=800))
    assert (chosen.step, chosen.saturation) == (1, Saturation(3, 800))
    assert cw.select(cw.load(log, n=4000)).step == 2  # 15 errors
    with refused("differs: val_accuracy") as refusal:
        cw.load(log, n=50)
    assert refusal.value.code == "differs"
    with refused("differs: val_accuracy"):
        cw.load_runs(log, n={"validation": 50})
