"""From the choice to a model of Keras: the chosen checkpoint, or the mean weights of several."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np

from checkwise.errors import CheckwiseWarning, InputError
from checkwise.integrations.keras_package import keras
from checkwise.integrations.live import LiveSelector
from checkwise.integrations.saving import JOURNAL
from checkwise.integrations.validation_sums import ValidationSums
from checkwise.metrics import to_numpy
from checkwise.records import as_names, check_held_out, divide
from checkwise.selection import Points
from checkwise.words import shown


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


Kind = Literal["logits", "probs"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
BATCH: Final = 32  # that of Keras itself
SINGLE: Final = "validation"


def named_sets(validation: Any) -> dict[str, Any]:
    """Name → set; a set without a name is ``validation``.

    Raises:
        InputError: something is no validation set, or has no example.
    """
    sets = dict(validation) if isinstance(validation, Mapping) else {SINGLE: validation}
    if not sets:
        raise InputError(
            "Expected at least one validation set, but got none: name one.", code="empty"
        )
    for name, data in sets.items():
        if not isinstance(name, str) or not name:
            raise InputError(f"Expected a name of a validation set, but got {shown(name)}.")
        _check_set(name, data)
    return sets


def _check_set(name: str, data: Any) -> None:
    if isinstance(data, tuple | list):
        if len(data) not in (2, 3):
            raise InputError(
                f"Expected (inputs, labels) of the validation set {name!r}, but got "
                f"{len(data)} parts."
            )
        if _rows(data[1]) == 0:
            raise InputError(
                f"Expected at least one example of the validation set {name!r}, but got none.",
                code="empty",
            )
    elif isinstance(data, Iterator) or not (hasattr(data, "__iter__") or _is_indexed(data)):
        raise InputError(
            f"Expected (inputs, labels) or a data set of batches for the validation set {name!r}, "
            f"but got {shown(data)}, which cannot be gone through again at every epoch.",
            code="unsupported",
        )


def sources(names: tuple[str, ...], options: Mapping[str, Any]) -> tuple[str, ...]:
    """The sets to choose by; the others are held out, and are never read."""
    where = "the validation sets"
    held_out = as_names(options.get("held_out"))
    check_held_out(held_out, names, where)
    left = set(names).difference(held_out)
    if not left:
        raise InputError(
            f"Expected a set to choose by, but all of {where} are held out.", code="empty"
        )
    named = as_names(options.get("sources"))
    chosen = set(divide(left, sources=named, where=where).sources)
    return tuple(name for name in names if name in chosen)


def batches(data: Any, size: int) -> Iterator[tuple[Any, Any]]:
    """Inputs and labels, batch by batch, in the order of the set."""
    if isinstance(data, tuple | list):
        inputs, labels = data[0], data[1]
        for start in range(0, _rows(labels), size):
            part = slice(start, start + size)
            yield _taken(inputs, part), labels[part]
        return
    parts = (data[i] for i in range(len(data))) if _is_indexed(data) else iter(data)
    for batch in parts:
        if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
            raise InputError(
                f"Expected batches of (inputs, labels), but a validation set has {shown(batch)}."
            )
        yield batch[0], batch[1]


def _is_indexed(data: Any) -> bool:
    """Whether it is a ``PyDataset``, which Keras goes through by index."""
    return (
        hasattr(data, "__getitem__") and hasattr(data, "__len__") and hasattr(data, "on_epoch_end")
    )


def _taken(inputs: Any, part: slice) -> Any:
    """Rows of the inputs, which may be several arrays."""
    if isinstance(inputs, Mapping):
        return {name: _taken(value, part) for name, value in inputs.items()}
    if isinstance(inputs, tuple | list):
        return type(inputs)(_taken(value, part) for value in inputs)
    return inputs[part]


def _rows(labels: Any) -> int:
    return int(labels.shape[0]) if hasattr(labels, "shape") else len(labels)


@dataclass(frozen=True)
class Measure:
    """Measures a model on validation sets.

    Args:
        kind: what the model returns.
        batch_size: rows of arrays at a time.
        bins, bandwidth: settings of the calibration errors.
        outputs: ``outputs(returned) -> [n, C]``, where a model returns something else.
        examples: whether to keep which examples were predicted correctly.
        logits: whether to keep what the model said of them.
    """

    kind: Kind
    batch_size: int
    bins: int
    bandwidth: float
    outputs: Callable[[Any], Any] | None
    examples: bool = False
    logits: bool = False

    def __call__(self, model: Any, name: str, data: Any) -> Any:
        """What ``LiveSelector.add`` takes of one set."""
        in_order = isinstance(data, tuple | list)  # batches of others may be shuffled
        sums = ValidationSums(
            name,
            self.bins,
            self.bandwidth,
            kind=self.kind,
            examples=self.examples or in_order,
            logits=self.logits,
        )
        for inputs, labels in batches(data, self.batch_size):
            sums.update(*self._said(model, inputs, labels, name))
        return sums.entry()

    def check(self, model: Any, name: str, data: Any) -> None:
        """Refuse, before any training, what would be refused after the first epoch."""
        sums = ValidationSums(name, self.bins, self.bandwidth, kind=self.kind)
        for inputs, labels in batches(data, self.batch_size):
            values, integers = self._said(model, inputs, labels, name)
            if self.kind == "logits" and _are_probabilities(values):
                raise InputError(
                    f'Expected logits, as kind="logits" says, but the model returned '
                    f"probabilities for the validation set {name!r}: every row sums to 1. Pass "
                    'kind="probs".'
                )
            sums.update(values, integers)
            break
        sums.entry()

    def _said(self, model: Any, inputs: Any, labels: Any, name: str) -> tuple[Any, Any]:
        returned = model.predict_on_batch(inputs)
        values = np.asarray(self.outputs(returned) if self.outputs else returned)
        if values.ndim != 2:
            raise InputError(
                f"Expected outputs [n, C] for the validation set {name!r}, but the model returned "
                f"{_shape_of(returned)}: pass outputs=lambda returned: …"
            )
        if values.shape[1] == 1:  # one unit for two classes
            other = np.zeros_like(values) if self.kind == "logits" else 1 - values
            values = np.concatenate([other, values], axis=1)
        return values, as_integers(labels, name)


def as_integers(labels: Any, name: str) -> Any:
    """Labels [n], of whole numbers [n] or [n, 1] or one-hot rows [n, C]."""
    array = to_numpy(labels, "labels")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 2:
        if not (np.isin(array, (0, 1)).all() and (array.sum(axis=1) == 1).all()):
            raise InputError(
                f"Expected one-hot labels of the validation set {name!r}, but got rows that do not "
                "name one class: pass whole numbers [n]."
            )
        return array.argmax(axis=1)
    whole = array.astype(np.int64)
    if array.ndim != 1 or not np.array_equal(whole, array):
        raise InputError(
            f"Expected labels [n] of the validation set {name!r}, whole numbers or one-hot rows, "
            f"but got {array.dtype} {list(array.shape)}."
        )
    return whole


def _are_probabilities(values: Any) -> bool:
    sums = values.sum(axis=1, dtype=np.float64)
    return bool((values >= 0).all() and np.allclose(sums, 1, atol=1e-4))


def _shape_of(returned: Any) -> str:
    return str(list(returned.shape)) if hasattr(returned, "shape") else shown(returned)
