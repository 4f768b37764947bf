"""The callback of Keras: chosen, kept on disk, recorded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from topics import small
from topics.run_folder import contents

if TYPE_CHECKING:
    from ask import Side

SETTINGS: dict[str, dict[str, Any]] = {
    "keras": {"delta_pp": 0.5},
    "keras-wide": {"delta_pp": 3.0, "calibrator": "ts-soften"},
    "keras-nll": {"rule": "ac-nll", "weights_only": True},
}


def answers(side: Side) -> Iterator[tuple[str, object]]:
    import keras

    torch.set_num_threads(1)
    callback_of = side.public("checkwise.integrations.keras:ReliabilityCheckpoint")
    for name, settings in SETTINGS.items():
        folder = Path("callbacks") / name
        keras.utils.set_random_seed(0)
        layers = [keras.layers.Dense(16, activation="relu"), keras.layers.Dense(3)]
        model = keras.Sequential([keras.Input((6,)), *layers])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer=keras.optimizers.SGD(0.1), loss=loss)
        sets = {domain: arrays(domain) for domain in small.DOMAINS}
        callback = callback_of(sets, kind="logits", dirpath=folder, **settings)
        x, y = arrays("train")
        options = {"batch_size": 16, "verbose": 0, "shuffle": False}
        model.fit(x, y, epochs=12, callbacks=[callback], **options)
        chosen = {"step": callback.selection.step, "path": Path(callback.best_model_path).name}
        yield name, {**chosen, **contents(side, folder)}


def arrays(name: str) -> tuple[Any, Any]:
    x, y = small.examples(name)
    return x.numpy(), y.numpy()
