"""transformers' Trainer: ``checkpoint-N/trainer_state.json``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments

from tests.material.trainers.recipes.account import Account, keep
from tests.material.trainers.recipes.digits import Part, digits

LOGS = ("**/trainer_state.json", "*.json")
VERSIONS = ("transformers", "accelerate", "torch")


class Classifier(nn.Module):
    """Two layers; returns loss and logits, as the Trainer expects."""

    def __init__(self) -> None:
        super().__init__()
        self.config = transformers.PretrainedConfig(num_labels=10)
        self.layers = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(
        self, x: torch.Tensor, labels: torch.Tensor | None = None
    ) -> dict[str, torch.Tensor]:
        logits = self.layers(x)
        if labels is None:  # with label smoothing, the Trainer keeps the labels to itself
            return {"logits": logits}
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class Examples(torch.utils.data.Dataset[dict[str, Any]]):
    """A part of the digits as the Trainer reads it."""

    def __init__(self, part: Part) -> None:
        self.part = part

    def __len__(self) -> int:
        return len(self.part)

    def __getitem__(self, i: int) -> dict[str, Any]:
        return {"x": torch.from_numpy(self.part.x[i]), "labels": int(self.part.y[i])}


class Watch(TrainerCallback):
    """Writes down each evaluation; with several sets, once all of them have reported."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.scores: dict[str, dict[str, float]] = {}

    def on_evaluate(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        metrics = rest["metrics"]
        for name in self.account.n:
            prefix = "eval_" if name == "validation" else f"eval_{name}_"
            if prefix + "loss" in metrics:
                self.scores[name] = {
                    metric: metrics[prefix + metric]
                    for metric in ("accuracy", "loss")
                    if prefix + metric in metrics
                }
        if len(self.scores) == len(self.account.n):
            self.account.evaluated(step=state.global_step, epoch=state.epoch, scores=self.scores)
            self.scores = {}

    def on_save(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        self.account.saved()


def accuracy(prediction: transformers.EvalPrediction) -> dict[str, float]:
    """The share of correct predictions."""
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def make(work: Path, into: Path) -> None:
    """All cases."""
    _, validation, _ = digits()
    odd = validation.y % 2 == 1
    one, two = (
        {"validation": validation},
        {"odd": validation.where(odd), "even": validation.where(~odd)},
    )
    _train(work / "plain", into, one)
    _train(work / "two_sets", into, two)
    _train(work / "evaluated_after", into, one, load_best_model_at_end=True)
    _train(work / "save_total_limit", into, one, save_total_limit=2)
    _train(work / "every_second_saved", into, one, eval_steps=24, save_steps=48)
    _train(work / "label_smoothing", into, one, label_smoothing_factor=0.1)
    _resumed(work / "resumed", into, one)
    _language_model(work / "language_model", into)


def _arguments(case: Path, **options: Any) -> TrainingArguments:
    settings: dict[str, Any] = {
        "num_train_epochs": 12,
        "per_device_train_batch_size": 8,
        "learning_rate": 0.04,
        "lr_scheduler_type": "constant",
        "eval_strategy": "epoch",
        "save_strategy": "epoch",
        "logging_steps": 30,
        "report_to": "none",
        "disable_tqdm": True,
        "seed": 0,
        "use_cpu": True,
    }
    if "eval_steps" in options:
        settings |= {"eval_strategy": "steps", "save_strategy": "steps"}
    if options.get("load_best_model_at_end"):
        settings |= {"metric_for_best_model": "accuracy"}
    return TrainingArguments(output_dir=str(case), **(settings | options))


def _account(case: Path, sets: Mapping[str, Part]) -> Account:
    return Account(
        case,
        "checkpoint-360/trainer_state.json",
        "checkpoint-*",
        n={name: len(part) for name, part in sets.items()},
    )


def _trainer(account: Account, sets: Mapping[str, Part], **options: Any) -> Trainer:
    torch.manual_seed(0)
    several = {name: Examples(part) for name, part in sets.items()}
    return Trainer(
        model=Classifier(),
        args=_arguments(account.root, **options),
        train_dataset=Examples(digits()[0]),
        eval_dataset=several if len(several) > 1 else several["validation"],
        compute_metrics=accuracy,
        callbacks=[Watch(account)],
    )


def _train(case: Path, into: Path, sets: Mapping[str, Part], **options: Any) -> None:
    account = _account(case, sets)
    trainer = _trainer(account, sets, **options)
    trainer.train()
    account.over()
    if options.get("load_best_model_at_end"):
        # What scripts do at their end: the best weights are evaluated, which logs the last step a
        # second time, and the state is saved beside the checkpoints.
        best = trainer.evaluate()
        trainer.save_model()
        trainer.save_state()
        trainer.save_metrics("eval", best)
    keep(case, into / case.name, runs=[account], logs=LOGS)


def _resumed(case: Path, into: Path, sets: Mapping[str, Part]) -> None:
    """Stopped after six epochs of twelve; continued from the fourth, as if the sixth was lost."""
    account = _account(case, sets)
    first = _trainer(account, sets)
    first.add_callback(StopAfter(6))
    first.train()
    account.resume(step=120)
    _trainer(account, sets, seed=1).train(resume_from_checkpoint=str(case / "checkpoint-120"))
    keep(case, into / case.name, runs=[account], logs=LOGS)


class StopAfter(TrainerCallback):
    """Ends the training early, as a time limit would."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def on_epoch_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        control.should_training_stop = state.epoch >= self.epochs


def _language_model(case: Path, into: Path) -> None:
    """A GPT-2 of a few thousand weights, letter by letter, on scikit-learn's data descriptions."""
    text = "".join(load().DESCR for load in (load_digits, load_iris, load_wine, load_breast_cancer))
    letters = torch.tensor([min(ord(letter), 127) for letter in text])
    lines = [{"input_ids": line, "labels": line} for line in letters.split(64)[:-1]]
    validation = lines[1::4]
    log = "checkpoint-228/trainer_state.json"
    account = Account(case, log, "checkpoint-*", n={"validation": len(validation)})
    config = transformers.GPT2Config(
        vocab_size=128,
        n_positions=64,
        n_embd=16,
        n_layer=1,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
    )
    torch.manual_seed(0)
    Trainer(
        model=transformers.GPT2LMHeadModel(config),
        args=_arguments(case, eval_steps=30, save_steps=30),
        train_dataset=lines[::4] + lines[2::4] + lines[3::4],
        eval_dataset=validation,
        callbacks=[Watch(account)],
    ).train()
    keep(case, into / case.name, runs=[account], logs=LOGS)
