"""A training with transformers that is killed or resumed ends with the choice after the fact."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import checkwise as cw
from tests.requirements import available

available("transformers", "accelerate")

from transformers import TrainerCallback

from checkwise.integrations.transformers import ReliabilityCallback
from tests.integrations import transformers_ranks
from tests.integrations.selections import check_calibrator, check_predictions
from tests.integrations.transformers_kills import DELTA_PP, SETS
from tests.integrations.transformers_runs import (
    Scripted,
    arguments,
    known_script,
    outputs_of,
    script,
    scripted_trainer,
    steps_on_disk,
)

ROOT = Path(__file__).parents[2]


def run(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_killed_at_random_instants(tmp_path: Path) -> None:
    run("tests.integrations.transformers_kills", str(tmp_path), "7", "4")
    table, labels = known_script()
    for name, sets in SETS.items():
        folder = tmp_path / name
        ended = json.loads((folder / "ended.json").read_text())
        outputs = outputs_of(table, labels, every=1, sets=sets)
        chosen = cw.select(cw.Trajectory.from_predictions(outputs), "ac-nc", delta_pp=DELTA_PP)
        assert ended["choice"] == ended["loaded"] == chosen.step
        assert ended["steps"] == sorted(outputs)
        assert ended["feasible"] == list(chosen.feasible_steps)
        assert ended["best"] == str(folder / f"checkpoint-{chosen.step}")
        assert set(steps_on_disk(folder)) == {*chosen.feasible_steps, 20}
        check_predictions(folder / "predictions", outputs)
        check_calibrator(folder / "calibrator.json", outputs, chosen.step)


class Counting(Scripted):
    """Counts the batches that it is trained with in a buffer, as normalisation does."""

    batches: Any

    def forward(self, example: Any, labels: Any = None) -> Any:
        self.batches += self.training
        return super().forward(example, labels)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ({}, {"load_best_model_at_end": False, "gradient_accumulation_steps": 3}),
        ({}, {"max_steps": -1, "num_train_epochs": 1}),
        ({"patience": 1}, {"eval_strategy": "epoch", "save_strategy": "epoch", "max_steps": 100}),
    ],
)
def test_a_training_that_is_over_is_resumed_and_nothing_changes(
    tmp_path: Path, options: dict[str, Any], changes: dict[str, Any]
) -> None:
    """A Trainer that resumes goes on for one batch at least."""
    table, labels = script([0.1, 0.5, 0.9, *([0.7] * 50)])
    seen: list[dict[str, Any]] = []
    for resumed in (None, True):
        callback = ReliabilityCallback(delta_pp=0.5, calibrator="ts-soften", **options)
        args = arguments(tmp_path, steps=8, **changes)
        trainer = scripted_trainer(args, table, labels, callback)
        trainer.model.__class__ = Counting
        trainer.model.register_buffer("batches", torch.zeros(1))
        trainer.train(resume_from_checkpoint=resumed)
        assert callback.selection is not None
        seen.append(
            {
                "choice": callback.choice,
                "digest": callback.selection.digest,
                "weights": {name: float(w) for name, w in trainer.model.state_dict().items()},
                "step": trainer.state.global_step,
                "epoch": trainer.state.epoch,
                "best": trainer.state.best_model_checkpoint,
                "steps": callback.live.steps,
                "files": contents(tmp_path),
            }
        )
    assert seen[0] == seen[1]
    assert seen[0]["step"] == max(seen[0]["steps"])


def test_two_processes_choose_as_one(tmp_path: Path) -> None:
    """The second half of the distributed training is resumed by a new pair of processes."""
    pair, lone = tmp_path / "2", tmp_path / "1"
    table, labels = known_script()
    lone.mkdir()
    pair.mkdir()
    run(transformers_ranks.__name__, str(pair))
    for mode in transformers_ranks.MODES:
        transformers_ranks.train(lone, mode, 10)
        alone = json.loads((lone / f"{mode}-alone.json").read_text())
        ranks = [json.loads((pair / f"{mode}-{rank}.json").read_text()) for rank in (0, 1)]
        assert [facts["processes"] for facts in (alone, *ranks)] == [1, 2, 2]
        assert ranks[0] == ranks[1]
        assert [ranks[0][name] for name in ("choice", "best", "loaded")] == [alone["choice"]] * 3
        one, two = (json.loads((at / f"{mode}-chosen.json").read_text()) for at in (lone, pair))
        assert two == one
        assert one["examples"] is not None or not mode.endswith("-paired")
        assert steps_on_disk(pair / mode) == steps_on_disk(lone / mode)
        for folder in (pair, lone):
            sets = outputs_of(table, labels, every=1, sets=transformers_ranks.TWO)
            done = {step: outputs for step, outputs in sets.items() if step <= 10}
            check_predictions(folder / mode / "predictions", done)
            check_calibrator(folder / mode / "calibrator.json", done, alone["choice"])
        assert len(alone["metrics"]) == 20
        # Sums of other batches are rounded differently.
        tolerance = 1e-12 if mode.startswith("streamed") else 0
        for one, two in zip(alone["metrics"], ranks[0]["metrics"], strict=True):
            assert two == pytest.approx(one, rel=tolerance, abs=0)
            for name in one:
                if name.endswith(("_n", "accuracy", "hard_ece", "hard_cwece")):
                    assert two[name] == one[name]


def test_resuming_from_an_older_checkpoint_forgets_what_came_after(tmp_path: Path) -> None:
    table, labels = script([0.1, 0.5, 0.6, 0.7, 0.9, 0.9])
    options: dict[str, Any] = {"delta_pp": 50}
    first = ReliabilityCallback(**options)
    scripted_trainer(arguments(tmp_path, steps=10), table, labels, first).train()
    table[4:] = table[1]  # another course from step 8 on
    again = ReliabilityCallback(**options)
    trainer = scripted_trainer(arguments(tmp_path, steps=10), table, labels, again)
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-6"))
    offline = cw.Trajectory.from_predictions(outputs_of(table, labels))
    assert again.choice == cw.select(offline, "ac-nc", **options).step
    # No save went over a checkpoint of the earlier course, where it could pass as whole too soon.
    assert {path.name for path in tmp_path.glob("earlier-*")} == {
        "earlier-checkpoint-8",
        "earlier-checkpoint-10",
    }
    np.testing.assert_array_equal(again.live.trajectory.correct, offline.correct)


def test_a_new_training_in_a_folder_with_records_is_refused(tmp_path: Path) -> None:
    table, labels = script([0.1, 0.5, 0.9, 0.7])
    first = ReliabilityCallback(delta_pp=1)
    trainer = scripted_trainer(arguments(tmp_path, steps=6), table, labels, first)
    trainer.train()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    other = scripted_trainer(
        arguments(tmp_path, steps=4), table, labels, ReliabilityCallback(delta_pp=1)
    )
    for again in (trainer, other):  # train() twice, and a program that is started twice
        with pytest.raises(cw.InputError, match=r"3 checkpoints .*resume_from_checkpoint=True"):
            again.train()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_records_without_checkpoints_are_forgotten_by_a_new_training(tmp_path: Path) -> None:
    """As a process leaves them that was killed within its first save."""
    table, labels = script([0.1, 0.5, 0.9, 0.7])
    first = ReliabilityCallback(delta_pp=1)
    scripted_trainer(arguments(tmp_path, steps=4), table, labels, first).train()
    for step in steps_on_disk(tmp_path):
        shutil.rmtree(tmp_path / f"checkpoint-{step}")
    course = table[[0, 1, 1, 3]]
    callback = ReliabilityCallback(delta_pp=1)
    trainer = scripted_trainer(arguments(tmp_path, steps=6), course, labels, callback)
    trainer.train()
    expected = cw.Trajectory.from_predictions(outputs_of(course, labels))
    assert callback.choice == cw.select(expected, "ac-nc", delta_pp=1).step
    assert trainer.model.step.item() == callback.choice


def test_half_written_checkpoints_are_set_aside(tmp_path: Path) -> None:
    table, labels = script([0.1, 0.5, 0.6, 0.7, 0.8, 0.9])
    first = ReliabilityCallback(delta_pp=100)
    scripted_trainer(arguments(tmp_path, steps=6), table, labels, first).train()
    (tmp_path / "checkpoint-8").mkdir()
    (tmp_path / "checkpoint-8" / "model.safetensors").write_bytes(b"half")
    (tmp_path / "checkpoint-6" / "checkpoint-is-incomplete.txt").touch()
    again = ReliabilityCallback(delta_pp=100)
    trainer = scripted_trainer(arguments(tmp_path, steps=10), table, labels, again)
    assert steps_on_disk(tmp_path) == [2, 4]
    trainer.train(resume_from_checkpoint=True)
    offline = cw.Trajectory.from_predictions(outputs_of(table, labels))
    assert again.choice == cw.select(offline, "ac-nc", delta_pp=100).step
    assert steps_on_disk(tmp_path) == [2, 4, 6, 8, 10]
    assert {path.name for path in tmp_path.glob("incomplete-*")} == {
        "incomplete-checkpoint-6",
        "incomplete-checkpoint-8",
    }


def test_a_checkpoint_that_somebody_deleted_is_not_chosen(tmp_path: Path) -> None:
    table, labels = script([0.1, 0.5, 0.9, 0.7, 0.7])
    first = ReliabilityCallback(delta_pp=0.5)
    scripted_trainer(arguments(tmp_path, steps=6), table, labels, first).train()
    assert first.choice == 4
    shutil.rmtree(tmp_path / "checkpoint-4")
    again = ReliabilityCallback(delta_pp=0.5)
    trainer = scripted_trainer(arguments(tmp_path, steps=8), table, labels, again)
    trainer.train(resume_from_checkpoint=True)
    assert again.choice in (6, 8)
    assert trainer.model.step.item() == again.choice


def test_a_training_that_was_interrupted_is_resumed_in_the_same_process(tmp_path: Path) -> None:
    """As in a notebook, where the first Trainer still exists when the second is made."""

    class Interrupt(TrainerCallback):  # type: ignore[misc, unused-ignore]
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 5:
                raise KeyboardInterrupt

    table, labels = script([0.1, 0.5, 0.9, 0.7, 0.7])
    args = arguments(tmp_path, steps=8)
    trainer = scripted_trainer(args, table, labels, ReliabilityCallback(), callbacks=(Interrupt(),))
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    callback = ReliabilityCallback()
    again = scripted_trainer(args, table, labels, callback)
    again.train(resume_from_checkpoint=True)
    assert callback.choice == again.model.step.item() == 4
    assert callback.live.steps == (2, 4, 6, 8)
