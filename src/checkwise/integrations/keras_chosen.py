"""From the choice to a model of Keras: the chosen checkpoint, or the mean weights of several."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from checkwise.errors import CheckwiseWarning, InputError
from checkwise.integrations.keras_package import keras
from checkwise.integrations.live import LiveSelector
from checkwise.integrations.saving import JOURNAL
from checkwise.selection.standing import Points
from checkwise.text import shown


def load_chosen(
    folder: str | os.PathLike[str],
    model: Any = None,
    *,
    average_within_pp: Points | None = None,
    k: int | None = None,
) -> Any:
    """The model that was chosen in the folder of a ``ReliabilityCheckpoint``.

    Args:
        folder: its ``dirpath``.
        model: a model that is built as in training, to load weights into; needed for
            ``.weights.h5``, which hold no model.
        average_within_pp: the mean weights of the checkpoints within this many points of the best
            accuracy, in place of the chosen one. Train with the same ``average_within_pp``, which
            keeps them. What is not trained (BatchNorm statistics) is that of the chosen one.
        k: of these so many, spread over them.

    Returns:
        A model of Keras; its own ``save`` writes it.
    """
    journal = Path(folder, JOURNAL)
    if not journal.is_file():
        raise InputError(
            f"Expected the dirpath of a ReliabilityCheckpoint, but there is no {JOURNAL} in "
            f"{folder}: name the folder that it wrote to.",
            code="missing",
        )
    live = LiveSelector.from_journal(journal)
    if live.choice is None or live.path is None:
        raise InputError(
            f"Expected a chosen checkpoint, but {journal} has none with its file.", code="missing"
        )
    loaded = _loaded(live.path, model)
    if average_within_pp is None:
        return loaded
    steps = live.members(k, delta_pp=average_within_pp)
    _set_mean(loaded, [live.checkpoints[step] for step in steps])
    return loaded


def _set_mean(model: Any, paths: list[Path]) -> None:
    """Put the mean of the trained weights into a model; of equal ones, exactly these."""
    if any(isinstance(layer, keras.layers.BatchNormalization) for layer in _layers(model)):
        warnings.warn(
            "The statistics of BatchNormalization are those of the chosen checkpoint, not of the "
            "mean weights: run training examples through the model with training=True before "
            "you use it.",
            CheckwiseWarning,
            stacklevel=3,
        )
    trained = model.trainable_weights
    others = [weight.numpy() for weight in model.non_trainable_weights]
    optimizer = getattr(model, "optimizer", None)
    kept = [] if optimizer is None else [variable.numpy() for variable in optimizer.variables]
    first: list[Any] = []
    excess: list[Any] = []
    for path in paths:
        model.load_weights(path)
        values = [np.asarray(weight.numpy(), np.float64) for weight in trained]
        first = first or values
        excess = [
            total + value - start
            for total, value, start in zip(
                excess or [0.0] * len(values), values, first, strict=True
            )
        ]
    for weight, start, total in zip(trained, first, excess, strict=True):
        weight.assign(start + total / len(paths))
    for weight, value in zip(model.non_trainable_weights, others, strict=True):
        weight.assign(value)
    for variable, value in zip(optimizer.variables if optimizer else (), kept, strict=True):
        variable.assign(value)


def _layers(model: Any) -> list[Any]:
    """Every layer, also of models within the model."""
    return list(getattr(model, "_flatten_layers", lambda: model.layers)())


def _loaded(path: Path, model: Any) -> Any:
    if model is None:
        if path.suffix != ".keras":
            raise InputError(
                f"Expected a model to load {path.name} into, because it holds weights alone: write "
                "load_chosen(folder, model).",
                code="missing",
            )
        return keras.models.load_model(path)
    if not hasattr(model, "load_weights"):
        raise InputError(f"Expected a model of Keras, but got {shown(model)}.")
    model.load_weights(path)
    return model
