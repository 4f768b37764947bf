"""A Trainer of transformers trains with the callback: real fits, no mocks."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.selection import KeepFeasible, KeepLast
from tests.requirements import available

available("transformers", "accelerate")

from transformers import EarlyStoppingCallback, TrainerCallback

from checkwise.integrations.transformers import ReliabilityCallback
from tests.integrations.transformers_runs import (
    Rows,
    arguments,
    outputs_of,
    saved_step,
    script,
    scripted_trainer,
    state_in,
    steps_on_disk,
)
from tests.refusals import refused

RISING = [0.1, 0.5, 0.6, 0.8, 0.78, 0.81, 0.7, 0.8, 0.81]
TWO = {"art": slice(0, 17), "photo": slice(17, 41)}


def offline(outputs: Any, **options: Any) -> cw.Selection:
    return cw.select(cw.Trajectory.from_predictions(outputs), "ac-nc", **options)


class Watch(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Counts checkpoints before and after each save; runs after the callback."""

    def __init__(self, folder: Path, callback: ReliabilityCallback) -> None:
        self.folder, self.callback = folder, callback
        self.choices: list[int | None] = []

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        feasible = len(self.callback.live.keep)
        # The checkpoint of this step is to come, so one more than this is there before pruning.
        assert len(steps_on_disk(self.folder)) + 1 <= feasible + 2

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        present = steps_on_disk(self.folder)
        assert len(present) <= len(self.callback.live.keep) + 1
        assert set(self.callback.live.keep) <= set(present)
        assert state.global_step in present
        self.choices.append(self.callback.choice)
        named = state_in(self.folder / f"checkpoint-{state.global_step}")
        assert named["best_model_checkpoint"] == str(
            self.folder / f"checkpoint-{self.callback.choice}"
        )
        assert named["best_global_step"] == self.callback.choice


@pytest.mark.parametrize(
    ("delta_pp", "streamed", "sets"), [(0.5, False, None), (4, True, TWO), (100, False, TWO)]
)
def test_the_choice_is_that_after_the_fact(
    tmp_path: Path, sets: Any, streamed: bool, delta_pp: float
) -> None:
    table, labels = script(RISING)
    callback = ReliabilityCallback(rule="ac-nc", delta_pp=delta_pp)
    watch = Watch(tmp_path, callback)
    args = arguments(tmp_path, steps=16, batch_eval_metrics=streamed)
    trainer = scripted_trainer(args, table, labels, callback, sets=sets, callbacks=(watch,))
    trainer.train()

    outputs = outputs_of(table, labels, sets=sets)
    chosen = offline(outputs, delta_pp=delta_pp)
    assert callback.choice == chosen.step
    assert callback.selection is not None
    assert callback.selection.feasible_steps == chosen.feasible_steps
    assert callback.selection.score == pytest.approx(chosen.score, rel=1e-9)
    assert trainer.state.best_model_checkpoint == str(tmp_path / f"checkpoint-{chosen.step}")
    assert trainer.state.best_metric == callback.selection.score
    loaded = trainer.model.step.item()
    assert loaded == saved_step(tmp_path / f"checkpoint-{chosen.step}") == chosen.step
    steps = sorted(outputs)
    for count, choice in enumerate(watch.choices, start=1):
        so_far = {step: outputs[step] for step in steps[:count]}
        assert choice == offline(so_far, delta_pp=delta_pp).step
    assert set(chosen.feasible_steps) <= set(steps_on_disk(tmp_path))


def test_the_choice_can_return_to_an_earlier_step(tmp_path: Path) -> None:
    """A bad NLL joins the feasible set and changes which of the earlier ones is nearest."""
    for seed in range(300):
        table, labels = script([0.1, 0.7, 0.7, 0.7, 0.7], seed=seed)
        outputs = outputs_of(table, labels)
        choices = [
            offline({s: outputs[s] for s in sorted(outputs)[:count]}, delta_pp=5).step
            for count in (1, 2, 3, 4)
        ]
        if any(later < before for before, later in pairwise(choices)):
            break
    else:
        raise AssertionError("no script makes the choice return")
    callback = ReliabilityCallback(rule="ac-nc", delta_pp=5)
    watch = Watch(tmp_path, callback)
    trainer = scripted_trainer(
        arguments(tmp_path, steps=8), table, labels, callback, callbacks=(watch,)
    )
    trainer.train()
    assert watch.choices == choices
    assert trainer.model.step.item() == choices[-1]


@pytest.mark.parametrize("metric", ["accuracy", None])
def test_what_most_configurations_have(
    tmp_path: Path, metric: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """A limit of saves and early stopping by a plain metric: it stops, and the rule chooses."""

    class Early(TrainerCallback):  # type: ignore[misc, unused-ignore]
        def on_train_begin(self, *arguments: Any, **keywords: Any) -> None:
            said.append(capsys.readouterr().err)

    said: list[str] = []
    table, labels = script(RISING)
    callback = ReliabilityCallback(rule="ac-nc", delta_pp=4)
    higher = {"greater_is_better": True} if metric else {}  # the loss of this model only falls
    args = arguments(tmp_path, steps=16, metric_for_best_model=metric, save_total_limit=1, **higher)
    stopping = EarlyStoppingCallback(2)
    trainer = scripted_trainer(args, table, labels, callback, callbacks=(stopping, Early()))
    with pytest.warns(cw.CheckwiseWarning, match="save_total_limit=1"):
        trainer.train()
    reached = {
        step: cw.metrics.accuracy(logits=z, labels=y)
        for step, said in outputs_of(table, labels).items()
        for z, y in said.values()
    }
    better = [
        step for step in reached if all(reached[step] > reached[s] for s in range(2, step, 2))
    ]
    last = (
        min(s + 4 for s in better if s + 2 not in better and s + 4 not in better) if metric else 16
    )
    assert trainer.state.global_step == last
    outputs = {step: said for step, said in outputs_of(table, labels).items() if step <= last}
    chosen = offline(outputs, delta_pp=4)
    assert callback.choice == trainer.model.step.item() == chosen.step
    assert set(steps_on_disk(tmp_path)) == {*chosen.feasible_steps, last}
    state = state_in(tmp_path / f"checkpoint-{last}")
    assert state["best_global_step"] == chosen.step
    assert state["best_model_checkpoint"] == str(tmp_path / f"checkpoint-{chosen.step}")
    assert args.save_total_limit == 1
    assert "a checkpoint takes about 4 bytes" in said[0]  # before the first batch
    assert "at most 8, 32 bytes" in said[0]
    if metric:
        assert state["best_metric"] == max(reached[step] for step in outputs)


@pytest.mark.parametrize("log", ["main", "all"])
def test_metrics_are_logged_for_every_set(tmp_path: Path, log: Any) -> None:
    table, labels = script(RISING)
    callback = ReliabilityCallback(compute_metrics=lambda prediction: {"share": 0.25}, log=log)
    trainer = scripted_trainer(arguments(tmp_path, steps=4), table, labels, callback, sets=TWO)
    trainer.train()
    (logged,) = [line for line in trainer.state.log_history if "eval_art_nll" in line][:1]
    expected = cw.metrics.evaluate(logits=table[1][:17], labels=labels[:17])
    for name, value in expected.values().items():
        shown = log == "all" or name in ("accuracy", "nll", "cwece")
        assert logged.get(f"eval_art_{name}") == (value if shown else None)
    assert logged["eval_art_n"] == 17
    assert logged["eval_art_share"] == 0.25
    assert "eval_checkwise" not in logged


def test_a_rule_may_use_a_metric_of_the_user(tmp_path: Path) -> None:
    table, labels = script(RISING)
    worst = iter([0.3, 0.9, 0.2, 0.8, 0.5, 0.5, 0.5, 0.5])
    callback = ReliabilityCallback(
        rule="ac",
        compute_metrics=lambda prediction: {"harm": next(worst)},
        objectives=["harm"],
        directions={"harm": "lower"},
        delta_pp=100,
    )
    trainer = scripted_trainer(arguments(tmp_path, steps=16), table, labels, callback)
    trainer.train()
    assert callback.choice == 6


def test_a_metric_that_the_rule_needs_and_nobody_returns_is_named(tmp_path: Path) -> None:
    table, labels = script(RISING)
    callback = ReliabilityCallback(rule="ac", objectives=["harm"], delta_pp=1)
    trainer = scripted_trainer(arguments(tmp_path, steps=4), table, labels, callback)
    with refused("missing: harm"):
        trainer.train()


def test_checkpoints_that_diverge_at_first_do_not_end_the_training(tmp_path: Path) -> None:
    table, labels = script(RISING[:6])
    sets = TWO
    table[1:3] = np.nan
    for steps, resumed in ((4, None), (10, True)):
        callback = ReliabilityCallback(delta_pp=4)
        trainer: Any = scripted_trainer(
            arguments(tmp_path, steps=steps), table, labels, callback, sets=sets
        )
        trainer.train(resume_from_checkpoint=resumed)
        assert (callback.choice is None) == (steps == 4)
        if steps == 4:
            assert steps_on_disk(tmp_path) == [4]
    outputs = outputs_of(table, labels, sets=sets)
    assert callback.choice == offline(outputs, delta_pp=4).step == trainer.model.step.item()
    assert callback.live.trajectory.diverged.tolist() == [True, True, False, False, False]


def test_an_evaluation_that_was_interrupted_is_not_counted_in_the_next(tmp_path: Path) -> None:
    class Interrupt(TrainerCallback):  # type: ignore[misc, unused-ignore]
        batches = 3

        def on_prediction_step(self, *arguments: Any, **keywords: Any) -> None:
            self.batches -= 1
            if self.batches == 0:
                raise KeyboardInterrupt

    table, labels = script(RISING)
    callback = ReliabilityCallback()
    args = arguments(tmp_path, steps=4, batch_eval_metrics=True)
    trainer = scripted_trainer(args, table, labels, callback, callbacks=(Interrupt(),))
    with pytest.raises(KeyboardInterrupt):
        trainer.evaluate()
    assert trainer.evaluate()["eval_n"] == len(labels)


def test_a_held_out_set_is_not_chosen_by(tmp_path: Path) -> None:
    table, labels = script(RISING)
    sets = {"test": slice(0, 17), "photo": slice(17, 41)}
    callback = ReliabilityCallback(delta_pp=4)
    trainer = scripted_trainer(arguments(tmp_path, steps=16), table, labels, callback, sets=sets)
    trainer.train()
    photo = outputs_of(table, labels, sets={"photo": sets["photo"]})
    assert callback.choice == offline(photo, delta_pp=4).step
    assert callback.live.trajectory.domains == ("photo",)


@pytest.mark.parametrize(
    ("sets", "options", "words"),
    [
        ({"test": slice(0, 41)}, {}, "held-out: 'test'"),
        (TWO, {"held_out": "sketch"}, "unknown: 'sketch' … art, photo"),
    ],
)
def test_a_set_that_is_not_there_is_named_at_the_first_save(
    tmp_path: Path, sets: Any, options: Any, words: str
) -> None:
    table, labels = script(RISING)
    callback = ReliabilityCallback(**options)
    trainer = scripted_trainer(arguments(tmp_path, steps=8), table, labels, callback, sets=sets)
    with refused(words):
        trainer.train()
    assert trainer.state.global_step == 2


def test_a_set_without_labels_is_refused_beside_one_with(tmp_path: Path) -> None:
    class Unlabelled(Rows):
        def __getitem__(self, index: int) -> dict[str, Any]:
            return {"example": self.first + index}

    table, labels = script(RISING)
    trainer = scripted_trainer(
        arguments(tmp_path, steps=4), table, labels, ReliabilityCallback(), sets=TWO
    )
    trainer.eval_dataset["photo"] = Unlabelled(labels[17:], first=17)
    with refused("missing: eval_photo_runtime"):
        trainer.train()


def test_step_0_and_evaluations_after_training_are_no_candidates(tmp_path: Path) -> None:
    table, labels = script([0.99, *RISING[1:]])
    callback = ReliabilityCallback(delta_pp=0.5)
    args = arguments(tmp_path, steps=16, eval_on_start=True)
    trainer = scripted_trainer(args, table, labels, callback)
    trainer.train()
    before = callback.live.steps
    assert 0 not in before
    assert callback.choice is not None
    values = trainer.evaluate()
    assert "eval_checkwise" not in values
    assert values["eval_nll"] == pytest.approx(
        cw.metrics.evaluate(logits=table[callback.choice // 2], labels=labels).nll
    )
    assert callback.live.steps == before


def test_an_evaluation_without_a_save_is_no_candidate(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table, labels = script(RISING)
    callback = ReliabilityCallback(delta_pp=100)
    args = arguments(tmp_path, steps=16, save_steps=4)
    trainer = scripted_trainer(args, table, labels, callback)
    trainer.train()
    saved = {s: v for s, v in outputs_of(table, labels).items() if s % 4 == 0}
    assert callback.choice == offline(saved, delta_pp=100).step
    assert caplog.text.count("evaluated but not saved") == 1


@pytest.mark.parametrize(
    ("keep", "left"),
    [
        (None, [8, 12]),
        (KeepFeasible() | KeepLast(3), [8, 10, 11, 12]),
    ],
)
def test_checkpoints_between_evaluations_are_deleted_after_the_next_save(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, keep: Any, left: list[int]
) -> None:
    class Count(TrainerCallback):  # type: ignore[misc, unused-ignore]
        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            most = len(callback.live.keep) + 1 if keep is None else 5
            assert len(steps_on_disk(tmp_path)) <= most
            assert state.global_step in steps_on_disk(tmp_path)

    table, labels = script([0.1, 0.5, 0.9, 0.6])
    callback = ReliabilityCallback(delta_pp=0.5, keep=keep)
    args = arguments(tmp_path, steps=12, every=4, save_steps=1, load_best_model_at_end=False)
    trainer = scripted_trainer(args, table, labels, callback, every=4, callbacks=(Count(),))
    trainer.train()
    assert callback.choice == 8
    assert steps_on_disk(tmp_path) == left
    assert caplog.text.count("not evaluated, so it cannot be chosen and is deleted") == 1


def test_patience_counts_evaluations_after_the_choice(tmp_path: Path) -> None:
    table, labels = script([0.1, 0.5, 0.9, 0.5, 0.5, 0.5, 0.5, 0.5, 0.95])
    callback = ReliabilityCallback(delta_pp=0.5, patience=3)
    trainer = scripted_trainer(arguments(tmp_path, steps=16), table, labels, callback)
    trainer.train()
    assert (callback.choice, trainer.state.global_step) == (4, 10)
    assert trainer.model.step.item() == 4


def test_another_policy_keeps_more_and_nothing_else_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "checkpoint-1").mkdir(parents=True)
    (tmp_path / "checkpoint-1" / "of-somebody-else").touch()
    table, labels = script([0.1, 0.5, 0.9, 0.5, 0.5, 0.5])
    callback = ReliabilityCallback(delta_pp=0.5, keep=KeepLast(3))
    scripted_trainer(arguments(tmp_path, steps=10), table, labels, callback).train()
    assert steps_on_disk(tmp_path) == [1, 4, 6, 8, 10]


@pytest.mark.parametrize("guard", [True, False])
def test_where_validation_is_saturated_the_earliest_near_best_leaves_the_training(
    tmp_path: Path, guard: bool
) -> None:
    table, labels = script([0.1, 0.5, 1.0, 1.0, 1.0])
    for row, sharper in enumerate((1, 1, 1, 2, 4)):
        table[row] *= sharper
    callback = ReliabilityCallback(rule="ac-nc", guard=guard)
    watch = Watch(tmp_path, callback)
    trainer = scripted_trainer(
        arguments(tmp_path, steps=8), table, labels, callback, callbacks=(watch,)
    )
    trainer.train()
    assert callback.choice == offline(outputs_of(table, labels), guard=guard).step
    assert callback.choice == (4 if guard else 8)
    assert trainer.state.best_model_checkpoint == str(tmp_path / f"checkpoint-{callback.choice}")
    assert {4, 6, 8} <= set(steps_on_disk(tmp_path))
    assert cw.select(cw.load(tmp_path)).step == callback.choice
