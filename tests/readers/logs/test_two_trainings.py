"""Two transformers trainings in one output folder: a checkpoint's own state says whose it is."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import checkwise as cw
from tests.refusals import refused

State = list[dict[str, Any]]


def _history(*accuracies: float) -> State:
    return [
        {"step": 100 * k, "epoch": float(k), "eval_accuracy": accuracy, "eval_loss": 1 - accuracy}
        for k, accuracy in enumerate(accuracies, start=1)
    ]


OLDER = _history(0.5, 0.9, 0.6, 0.61)
NEWER = _history(0.4, 0.45, 0.7)


def _state(folder: Path, history: Sequence[dict[str, Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    state = {"global_step": 100 * len(history), "log_history": history}
    (folder / "trainer_state.json").write_text(json.dumps(state))


def _save(folder: Path, history: State, *steps: int) -> None:
    for step in steps:
        _state(folder / f"checkpoint-{step}", history[: step // 100])
        (folder / f"checkpoint-{step}" / "model.safetensors").write_bytes(b"weights")


def _chosen_from(run: cw.Trajectory) -> dict[int, tuple[float, str]]:
    paths = [os.path.basename(path or "") for path in run.paths or ()]
    accuracies = run.values["accuracy"][:, 0].tolist()
    return dict(zip(run.steps.tolist(), zip(accuracies, paths, strict=True), strict=True))


def test_the_runs_own_state_wins_over_a_checkpoint_of_another_training(tmp_path: Path) -> None:
    _save(tmp_path, OLDER, 400)
    _save(tmp_path, NEWER, 100, 200, 300)
    _state(tmp_path, NEWER)
    run = cw.load(tmp_path)
    assert _chosen_from(run) == {
        100: (0.4, "checkpoint-100"),
        200: (0.45, "checkpoint-200"),
        300: (0.7, "checkpoint-300"),
    }
    assert "checkpoint-400 is of another training than trainer_state.json, not read" in run.notes


def test_checkpoints_that_contradict_the_state_are_left_out(tmp_path: Path) -> None:
    _save(tmp_path, OLDER, 300, 400)
    _save(tmp_path, NEWER, 100, 200)
    _state(tmp_path, OLDER)
    run = cw.load(tmp_path)
    assert _chosen_from(run) == {300: (0.6, "checkpoint-300"), 400: (0.61, "checkpoint-400")}
    assert any(note.startswith("left out: checkpoint-100, checkpoint-200") for note in run.notes)


def test_without_a_state_of_the_run_two_trainings_are_refused(tmp_path: Path) -> None:
    _save(tmp_path, OLDER, 400)
    _save(tmp_path, NEWER, 100, 200)
    with refused("ambiguous: checkpoint-200 … checkpoint-400") as why:
        cw.load(tmp_path)
    named = tmp_path / "checkpoint-200" / "trainer_state.json"
    assert str(named) in str(why.value)
    assert set(_chosen_from(cw.load(named))) == {100, 200}


def test_a_training_that_went_on_after_its_state_was_saved(tmp_path: Path) -> None:
    _save(tmp_path, OLDER, 100, 200, 400)
    _state(tmp_path, OLDER[:2])
    assert set(_chosen_from(cw.load(tmp_path))) == {100, 200, 400}


def test_an_evaluation_after_the_training_contradicts_nothing(tmp_path: Path) -> None:
    _save(tmp_path, NEWER, 100, 200, 300)
    _state(tmp_path, [*NEWER, {"step": 300, "train_runtime": 9.0, "train_loss": float("nan")}])
    run = cw.load(tmp_path)
    assert set(_chosen_from(run)) == {100, 200, 300}
    assert not any("training" in note for note in run.notes)
