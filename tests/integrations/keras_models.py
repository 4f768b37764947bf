"""A tiny Keras classifier on torch, data for it, and short trainings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np

SIZES = {"a": 21, "b": 34}


def examples(n: int, seed: int) -> tuple[Any, Any]:
    """Noisy examples that a linear layer learns in part."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(n, 6)).astype(np.float32)
    return x, (x[:, :3] + draw.normal(size=(n, 3))).argmax(axis=1)


def validation_sets(*names: str) -> dict[str, tuple[Any, Any]]:
    return {name: examples(SIZES.get(name, 20), ord(name[0])) for name in names}


def network(*, rate: float = 0.5, softmax: bool = False) -> Any:
    keras.utils.set_random_seed(0)
    last = keras.layers.Dense(3, activation="softmax" if softmax else None)
    model = keras.Sequential([keras.Input((6,)), last])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=not softmax)
    model.compile(optimizer=keras.optimizers.SGD(rate, momentum=0.5), loss=loss)
    return model


class Watch(keras.callbacks.Callback):  # type: ignore[misc, unused-ignore]
    """Keeps what the model says about the sets after every epoch; stands before the callback."""

    def __init__(self, sets: dict[str, Any]) -> None:
        super().__init__()
        self.sets = sets
        self.seen: dict[int, dict[str, tuple[Any, Any]]] = {}

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        step = int(self.model.optimizer.iterations)
        outputs = {name: (self.model.predict_on_batch(x), y) for name, (x, y) in self.sets.items()}
        self.seen[step] = outputs


def fit(model: Any, *callbacks: Any, epochs: int = 4, **options: Any) -> Any:
    x, y = examples(64, 0)
    options = {"batch_size": 16, "verbose": 0, "shuffle": False, **options}
    return model.fit(x, y, epochs=epochs, callbacks=list(callbacks), **options)


def step_of(path: Path) -> int:
    """The step that a checkpoint holds."""
    return int(keras.models.load_model(path).optimizer.iterations)
