"""Settings of a Trainer that would undo the choice are refused, with the reason and the way out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import checkwise as cw
from tests.requirements import available

available("transformers", "accelerate")

import torch
from transformers import (
    BertConfig,
    BertLMHeadModel,
    EarlyStoppingCallback,
    Trainer,
)

from checkwise.integrations.transformers import ReliabilityCallback
from tests.integrations.transformers_runs import (
    Rows,
    Scripted,
    ScriptedConfig,
    arguments,
    script,
    scripted_trainer,
)
from tests.refusals import refused

TABLE, LABELS = script([0.1, 0.5, 0.6])


class Patient(EarlyStoppingCallback):  # type: ignore[misc, unused-ignore]
    """A class of the user."""


def test_settings_are_refused_when_the_trainer_is_made(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], tuple[Any, ...], str]] = [
        ({"save_strategy": "best"}, (), "unsupported: save_strategy"),
        ({"lr_scheduler_type": "reduce_lr_on_plateau"}, (), "unsupported: reduce_lr_on_plateau"),
        ({}, (Patient(3),), "unsupported: Patient … ReliabilityCallback(patience=N)"),
    ]
    for changes, callbacks, words in cases:
        args = arguments(tmp_path, steps=4, **changes)
        with refused(words):
            scripted_trainer(args, TABLE, LABELS, ReliabilityCallback(), callbacks=callbacks)


def test_early_stopping_that_is_added_later(tmp_path: Path) -> None:
    trainer = scripted_trainer(arguments(tmp_path, steps=4), TABLE, LABELS, ReliabilityCallback())
    trainer.add_callback(EarlyStoppingCallback(3))
    with refused("unsupported: EarlyStoppingCallback"):
        trainer.train()


def test_a_scheduler_object_that_waits_for_the_metric(tmp_path: Path) -> None:
    model, callback = Scripted(ScriptedConfig(), TABLE, 2), ReliabilityCallback()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    trainer = Trainer(
        model=model,
        args=arguments(tmp_path, steps=4),
        train_dataset=Rows(LABELS),
        eval_dataset=Rows(LABELS),
        compute_metrics=callback.compute_metrics,
        callbacks=[callback],
        optimizers=(optimizer, torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)),
    )
    with refused("unsupported: ReduceLROnPlateau"):
        trainer.train()


def test_a_training_without_evaluations_or_checkpoints(tmp_path: Path) -> None:
    for name in ("eval_strategy", "save_strategy"):
        changes: dict[str, Any] = {name: "no", "load_best_model_at_end": False}
        args = arguments(tmp_path, steps=4, **changes)
        trainer = scripted_trainer(args, TABLE, LABELS, ReliabilityCallback())
        with refused(f'unsupported: {name}= … "no" … reliability_metrics'):
            trainer.train()


def test_a_trainer_that_was_not_given_the_metrics(tmp_path: Path) -> None:
    trainer = Trainer(
        model=Scripted(ScriptedConfig(), TABLE, 2),
        args=arguments(tmp_path, steps=4),
        train_dataset=Rows(LABELS),
        eval_dataset=Rows(LABELS),
        callbacks=[ReliabilityCallback()],
    )
    with refused("missing: Trainer(compute_metrics=r … compute_metrics"):
        trainer.train()


def test_a_language_model(tmp_path: Path) -> None:
    size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    model = BertLMHeadModel(BertConfig(vocab_size=8, intermediate_size=8, is_decoder=True, **size))
    callback = ReliabilityCallback()
    with refused("unsupported: BertLMHeadModel"):
        Trainer(
            model=model,
            args=arguments(tmp_path, steps=4),
            train_dataset=Rows(LABELS),
            eval_dataset=Rows(LABELS),
            compute_metrics=callback.compute_metrics,
            callbacks=[callback],
        )


def test_wrong_arguments_are_refused_before_training() -> None:
    wrong: list[dict[str, Any]] = [
        *({"patience": patience} for patience in (0, -1, 1.5, True, "3")),
        *({name: 3} for name in ("keep", "tracker", "compute_metrics", "outputs")),
        {"rule": "no-such-rule"},
    ]
    accepted = []
    for options in wrong:
        try:
            ReliabilityCallback(**options)
        except cw.InputError as error:
            if next(iter(options.values())) != 3 or "3" in str(error):
                continue
        accepted.append(options)
    assert not accepted
