"""Real trainings with transformers that take seconds, and whose predictions are known beforehand.

``Scripted`` is a model with one weight, the step: its loss falls by 1 with every optimiser step at
a learning rate of 1. Its logits of an example at a step are looked up in a table, so a test decides
what every checkpoint predicts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch.utils.data import Dataset
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments
from transformers.modeling_outputs import SequenceClassifierOutput

from checkwise.integrations.transformers import ReliabilityCallback

Outputs = dict[int, dict[str, tuple[Any, Any]]]


class ScriptedConfig(PretrainedConfig):  # type: ignore[misc, unused-ignore]
    model_type = "checkwise-scripted"


class Scripted(PreTrainedModel):  # type: ignore[misc, unused-ignore]
    """Predicts ``table[step // every, example]``."""

    config_class = ScriptedConfig
    main_input_name = "example"

    def __init__(self, config: Any, table: np.ndarray[Any, Any] | None = None, every: int = 1):
        super().__init__(config)
        self.step = torch.nn.Parameter(torch.zeros(1))
        self.table = None if table is None else torch.as_tensor(table)
        self.every = every
        self.post_init()

    def _init_weights(self, module: Any) -> None:
        pass

    def forward(self, example: Any, labels: Any = None) -> SequenceClassifierOutput:
        assert self.table is not None
        row = round(float(self.step.detach())) // self.every
        loss = -self.step.sum() + 0.0 * example.float().mean()
        return SequenceClassifierOutput(loss=loss, logits=self.table[row][example])


class Rows(Dataset[Any]):
    """Examples of the table by their numbers."""

    def __init__(self, labels: np.ndarray[Any, Any], first: int = 0) -> None:
        self.labels, self.first = labels, first

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"example": self.first + index, "labels": int(self.labels[index])}


def script(
    accuracies: list[float], *, n: int = 41, classes: int = 3, seed: int = 0
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A table [T, n, C] in which row t has about the wanted accuracy, and labels [n]."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    table = rng.normal(size=(len(accuracies), n, classes)).astype(np.float32)
    for row, accuracy in zip(table, accuracies, strict=True):
        right = rng.permutation(n) < round(accuracy * n)
        shown = np.where(right, labels, (labels + 1) % classes)
        row[np.arange(n), shown] = row.max(axis=1) + rng.uniform(0.1, 2.0, n)
    return table, labels


def arguments(folder: Path, *, steps: int, every: int = 2, **changes: Any) -> TrainingArguments:
    """Evaluate and save together, on the CPU, at a learning rate of 1."""
    settings: dict[str, Any] = {
        "output_dir": str(folder),
        "max_steps": steps,
        "per_device_train_batch_size": 2,
        "per_device_eval_batch_size": 4,
        "optim": "sgd",
        "learning_rate": 1.0,
        "lr_scheduler_type": "constant",
        "max_grad_norm": 0.0,
        "eval_strategy": "steps",
        "save_strategy": "steps",
        "eval_steps": every,
        "save_steps": every,
        "logging_steps": 10_000,
        "load_best_model_at_end": True,
        "metric_for_best_model": "checkwise",
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
        "remove_unused_columns": False,
    }
    return TrainingArguments(**{**settings, **changes})


def scripted_trainer(
    args: TrainingArguments,
    table: np.ndarray[Any, Any],
    labels: np.ndarray[Any, Any],
    callback: ReliabilityCallback,
    *,
    every: int = 2,
    sets: dict[str, slice] | None = None,
    callbacks: tuple[Any, ...] = (),
) -> Trainer:
    """A Trainer of ``Scripted``; ``sets`` cuts the examples into several evaluation sets."""
    whole: Any = Rows(labels)
    evaluated = whole
    if sets:
        evaluated = {name: Rows(labels[part], first=part.start or 0) for name, part in sets.items()}
    return Trainer(
        model=Scripted(ScriptedConfig(), table, every),
        args=args,
        train_dataset=whole,
        eval_dataset=evaluated,
        compute_metrics=callback.compute_metrics,
        callbacks=[callback, *callbacks],
    )


def outputs_of(
    table: np.ndarray[Any, Any],
    labels: np.ndarray[Any, Any],
    *,
    every: int = 2,
    sets: dict[str, slice] | None = None,
) -> Outputs:
    """What the checkpoints predict, for the choice after the fact; step 0 is not saved."""
    parts = sets or {"validation": slice(0, len(labels))}
    return {
        row * every: {name: (table[row][part], labels[part]) for name, part in parts.items()}
        for row in range(1, len(table))
    }


def known_script() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Twenty checkpoints that rise, and then stay within a few points of the best."""
    rng = np.random.default_rng(5)
    return script([0.1, *np.minimum(0.4 + 0.04 * np.arange(20), 0.8) + rng.uniform(0, 0.05, 20)])


def steps_on_disk(folder: Path) -> list[int]:
    """The checkpoints in a folder."""
    return sorted(int(path.name.split("-")[1]) for path in folder.glob("checkpoint-*"))


def state_in(checkpoint: Path) -> dict[str, Any]:
    """The strict JSON of a checkpoint's state."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    text = (checkpoint / "trainer_state.json").read_text()
    state: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return state


def saved_step(checkpoint: Path) -> float:
    """The one weight of ``Scripted`` as saved."""
    return float(load_file(checkpoint / "model.safetensors")["step"])
