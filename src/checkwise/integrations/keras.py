"""A Keras callback: it keeps the checkpoints that may still be chosen, and names the choice."""

from __future__ import annotations

import math
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary, ref

import numpy as np

from checkwise.errors import CheckwiseWarning, InputError, MissingExtraError, naming_extras
from checkwise.integrations.callbacks import (
    SINGLE,
    Options,
    check_function,
    local_folder,
    warn_unchanged,
)
from checkwise.integrations.folder import JOURNAL, CheckpointFolder, Plan
from checkwise.integrations.live import LiveSelector
from checkwise.integrations.tracker import PREFIX, Log, Tracker
from checkwise.integrations.validation import Kind
from checkwise.metrics import BANDWIDTH, BINS, to_numpy, two_columns, whole
from checkwise.selection import DEFAULT_RULE, Choice, Points, Policy, Selection
from checkwise.words import shown

try:
    with naming_extras():
        import keras
        from keras.callbacks import Callback
except ModuleNotFoundError as error:  # Keras looks for tensorflow unless told otherwise
    raise MissingExtraError(
        f"Expected a backend for Keras, but {error.name} is not installed: set "
        "KERAS_BACKEND=torch, or the backend that you have, before Keras is imported."
    ) from error

__all__ = ["ReliabilityCheckpoint", "load_chosen"]

BATCH: Final = 32  # that of Keras itself
MODEL: Final = ".keras"
WEIGHTS: Final = ".weights.h5"
_NAME: Final = re.compile(r"epoch-(\d+)-step-(\d+)")
_OPEN: WeakValueDictionary[Path, CheckpointFolder] = WeakValueDictionary()


class ReliabilityCheckpoint(Callback):  # type: ignore[misc, unused-ignore]
    """Saves a checkpoint after every epoch and deletes those that can no longer be chosen.

    After an epoch it measures the model on each validation set, saves it, and deletes what the
    rule cannot choose any more. Records are kept in ``checkwise.jsonl`` beside the checkpoints, and
    a training that is resumed goes on from there.

    Args:
        validation: the validation sets by name, each ``(inputs, labels)`` or a data set of batches
            (a ``PyDataset``, a ``DataLoader``, …) that can be gone through again. One set needs no
            name; by default the one of ``fit``: its ``validation_data`` or ``validation_split``.
        rule: a name from ``cw.rules()``, or a whole ``cw.Choice``.
        dirpath: a folder of this machine for the checkpoints.
        kind: what the model returns, "logits" or "probs" (after a softmax or sigmoid). Never
            guessed.
        outputs: ``outputs(returned) -> [n, C]``, where the model returns something else.
        weights_only: save ``.weights.h5`` in place of ``.keras``. Both hold the optimizer.
        resume: go on from the newest checkpoint in the folder, if there is one, or from the one
            at a path. Otherwise a folder with records is refused.
        every: measure and save after every so many epochs, and after the last.
        batch_size: examples at a time, where a set is arrays.
        keep, average_within_pp, predictions, calibrator, tracker: as for every callback, see
            ``checkwise.integrations.callbacks.Options``. Of probabilities the logarithms are kept.
        log, bins, bandwidth, held_out, sources: the same.
        settings: as for ``LiveSelector``: ``delta_pp``, ``weights`` …
    """

    def __init__(
        self,
        validation: Any = None,
        rule: str | Choice = DEFAULT_RULE,
        *,
        dirpath: str | os.PathLike[str],
        kind: Kind | None = None,
        outputs: Callable[[Any], Any] | None = None,
        weights_only: bool = False,
        resume: bool | str | os.PathLike[str] = False,
        every: int = 1,
        batch_size: int = BATCH,
        keep: Policy | None = None,
        average_within_pp: Points | None = None,
        predictions: bool | str | os.PathLike[str] = False,
        calibrator: str | None = None,
        tracker: Tracker | None = None,
        log: Log = "main",
        bins: int = BINS,
        bandwidth: float = BANDWIDTH,
        held_out: str | Iterable[str] | None = None,
        sources: str | Iterable[str] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        if kind not in ("logits", "probs"):
            raise InputError(
                f'Expected kind="logits" or kind="probs", but got {shown(kind)}: say what the '
                'model returns. After a softmax or sigmoid it is "probs".'
            )
        self._folder = local_folder(dirpath)
        check_function(outputs, "outputs", "outputs=lambda returned: returned['logits']")
        self._kind: Kind = kind
        self._outputs = outputs
        self._options = Options(
            Choice.of(rule, **settings),
            keep=keep,
            average_within_pp=average_within_pp,
            predictions=predictions,
            calibrator=calibrator,
            tracker=tracker,
            log=log,
            bins=bins,
            bandwidth=bandwidth,
            held_out=held_out,
            sources=sources,
        )
        sets = {SINGLE: None} if validation is None else named_sets(validation)
        self._names = tuple(sets)
        read = self._options.sets_to_read(self._names, "the validation sets")
        self._sets: dict[str, Any] = {name: sets[name] for name in read}
        self._every = whole(every, "every", least=1)
        self._rows = whole(batch_size, "batch_size", least=1)
        self._suffix, self._resume = WEIGHTS if weights_only else MODEL, resume
        self._checkpoints = CheckpointFolder(
            self._options, last=f"last{self._suffix}", go_on="pass resume=True"
        )
        self._newest: int | None = None  # how far training was at the newest checkpoint
        self._checked = False
        self._reached: tuple[Callable[[], Any], int] = (lambda: None, 0)  # which model, and how far
        self.best_model_path = self.last_model_path = ""

    @property
    def selection(self) -> Selection | None:
        """The selection among the checkpoints so far."""
        return self._checkpoints.selection

    def members(self, k: int | None = None) -> tuple[int, ...]:
        """The steps of an average, all or ``k`` spread over them."""
        return self._checkpoints.members(k)

    def on_train_begin(self, logs: Any = None) -> None:
        """Open the journal, finish what a killed training left undone, and load the newest."""
        _refuse_processes()
        model, step = self._reached
        again = model() is self.model and step == self._step()
        source, plan = self._open(newest=again or self._resume is True)
        try:
            if source is not None and not again:
                self._load(Path(source))
            # Whether the model is where the checkpoint was that it goes on from.
            goes_on = again or (plan.number is not None and self._resume is not False)
            planned = -(-int(self.params.get("epochs") or 0) // self._every)
            self._checkpoints.begin(told=goes_on, planned=planned, size=self._size())
            self._newest = self._step() if goes_on else None
            self._follow(plan)
            self._checked = False
            self._check_sets()
        except BaseException:
            self._checkpoints.close()
            raise

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Measure and save the checkpoint, then delete what can no longer be chosen."""
        last = epoch + 1 == self.params.get("epochs") or self.model.stop_training
        if (epoch + 1) % self._every and not last:
            return
        step = self._step()
        if step == self._newest:
            warn_unchanged()
            return
        self._check_sets(begun=True)
        entries: dict[str, Any] = dict.fromkeys(self._names)  # what is held out is not read
        for name, data in self._sets.items():
            entries[name] = self._measure(name, self._of_fit() if data is None else data)
        outcome = self._checkpoints.weigh(step, entries)
        plan = self._checkpoints.plan(outcome, partial(self._name, epoch, step))
        with self._checkpoints.saving(plan):
            if self._suffix == MODEL:
                self.model.save(plan.part)
            else:
                self.model.save_weights(plan.part)
        self._checkpoints.commit(outcome, plan)
        self._newest = step
        self._follow(plan)
        self._checkpoints.prune()
        if logs is not None:  # for the history and the callbacks after this one
            logs.update({f"{PREFIX}/{name}": value for name, value in outcome.logged.items()})

    def on_train_end(self, logs: Any = None) -> None:
        """Log the selection, say what to average, and close the journal."""
        self._reached = (ref(self.model), self._step())
        self.model._initial_epoch = None
        self._checkpoints.end(of_keras=True)
        self._checkpoints.close()

    def _open(self, *, newest: bool) -> tuple[Path | None, Plan]:
        """Open the journal, also where a training in this process was interrupted; the source."""
        if (before := _OPEN.get(self._folder)) is not None:
            before.close()
        _OPEN[self._folder] = self._checkpoints

        checkpoints, folder = self._checkpoints, self._folder
        if not newest:
            source = None if isinstance(self._resume, bool) else Path(self._resume)
            return source, checkpoints.open(folder, source)
        source = checkpoints.newest_file(folder)
        plan = checkpoints.open(folder, source)
        if source is None and (source := checkpoints.newest_file(folder)) is not None:
            plan = checkpoints.open(folder, source)  # the link had been lost
        return source, plan

    def _load(self, source: Path) -> None:
        """Weights, optimizer and epoch of a checkpoint, as Keras's own ``BackupAndRestore``."""
        match = _NAME.search(source.resolve().name)
        if not source.exists() or match is None:
            raise InputError(
                f"Expected a checkpoint of this callback to resume from, but got {source}: name "
                f"one of {self._folder}, or pass resume=True.",
                code="missing",
            )
        self._optimizer()
        self.model.load_weights(source.resolve())
        self.model._initial_epoch = int(match[1])

    def _optimizer(self) -> Any:
        """The optimizer, with its state."""
        optimizer = getattr(self.model, "optimizer", None)
        if optimizer is None:
            raise InputError(
                "Expected a compiled model with an optimizer, but it has none.", code="unsupported"
            )
        if not optimizer.built:
            optimizer.build(self.model.trainable_variables)
        return optimizer

    def _step(self) -> int:
        """Optimizer steps so far."""
        return int(self._optimizer().iterations)

    def _size(self) -> int:
        """About the bytes of a checkpoint."""
        return sum(
            math.prod(variable.shape) * int((re.search(r"\d+", variable.dtype) or [8])[0]) // 8
            for variable in (*self.model.variables, *self._optimizer().variables)
        )

    def _name(self, epoch: int, step: int, number: int | None) -> str:
        version = "" if number is None else f"-v{number}"
        return str(self._folder / f"epoch-{epoch + 1:04d}-step-{step:06d}{version}{self._suffix}")

    def _follow(self, plan: Plan) -> None:
        self.best_model_path, self.last_model_path = plan.best, plan.last

    def _measure(self, name: str, data: Any) -> Any:
        """What ``LiveSelector.add`` takes of one set; batches of a data set may be shuffled."""
        ordered = data.in_order if isinstance(data, _OfFit) else isinstance(data, tuple | list)
        sums = self._options.sums(name, ordered=ordered, kind=self._kind)
        for inputs, labels in batches(data, self._rows):
            sums.update(*self._said(inputs, labels, name))
        return sums.entry()

    def _of_fit(self) -> _OfFit:
        """The validation data of ``fit``, which it makes before its first validation."""
        iterator = getattr(self.model, "_eval_epoch_iterator", None)
        if iterator is None:
            raise InputError(
                "Expected validation data, but fit has none yet: give fit validation_data= or "
                "validation_split=, with validation_freq=1, or name the sets in the callback.",
                code="missing",
            )
        return _OfFit(iterator.data_adapter)

    def _check_sets(self, *, begun: bool = False) -> None:
        """Refuse, before any training where that is known, what would be refused later."""
        if self._checked or (None in self._sets.values() and not begun):
            return
        for name, data in self._sets.items():
            self._check(name, self._of_fit() if data is None else data)
        self._checked = True

    def _check(self, name: str, data: Any) -> None:
        """Measure one batch."""
        sums = self._options.sums(name, ordered=False, kind=self._kind)
        for inputs, labels in batches(data, self._rows):
            values, integers = self._said(inputs, labels, name)
            adds_up = np.allclose(values.sum(axis=1, dtype=np.float64), 1, atol=1e-4)
            if self._kind == "logits" and adds_up and (values >= 0).all():
                raise InputError(
                    f'Expected logits, as kind="logits" says, but the model returned '
                    f"probabilities for the validation set {name!r}: every row sums to 1. Pass "
                    'kind="probs".'
                )
            sums.update(values, integers)
            break
        sums.entry()

    def _said(self, inputs: Any, labels: Any, name: str) -> tuple[Any, Any]:
        """What the model says of a batch [n, C], and its labels [n]."""
        returned = self.model.predict_on_batch(inputs)
        values = np.asarray(self._outputs(returned) if self._outputs else returned)
        values = two_columns(values, self._kind)  # of one unit, two classes
        if values.ndim != 2:
            shape = list(returned.shape) if hasattr(returned, "shape") else shown(returned)
            raise InputError(
                f"Expected outputs [n, C] for the validation set {name!r}, but the model returned "
                f"{shape}: pass outputs=lambda returned: …"
            )
        return values, as_integers(labels, name)


@dataclass(frozen=True)
class _OfFit:
    """The validation data of a ``fit``, batch by batch."""

    adapter: Any

    @property
    def in_order(self) -> bool:
        """Whether it is arrays, which ``fit`` does not shuffle."""
        return type(self.adapter).__name__ == "ArrayDataAdapter"

    def __iter__(self) -> Iterator[Any]:
        if type(self.adapter).__name__ == "GeneratorDataAdapter":
            raise InputError(
                "Expected validation data that can be gone through again, but fit has a generator: "
                "give arrays or a data set.",
                code="unsupported",
            )
        return iter(self.adapter.get_numpy_iterator())


def _refuse_processes() -> None:
    """Several processes would write one journal."""
    torch = sys.modules.get("torch.distributed")
    is_initialised = torch is not None and torch.is_available() and torch.is_initialized()
    processes = torch.get_world_size() if torch is not None and is_initialised else 1
    if processes > 1:
        raise InputError(
            f"Expected one process, but got {processes}: this callback works in a training of one "
            "process.",
            code="unsupported",
        )


def named_sets(validation: Any) -> dict[str, Any]:
    """Name → set; a set without a name is ``validation``."""
    sets = dict(validation) if isinstance(validation, Mapping) else {SINGLE: validation}
    if not sets:
        raise InputError(
            "Expected at least one validation set, but got none: name one.", code="empty"
        )
    for name, data in sets.items():
        if isinstance(data, tuple | list):
            is_set = len(data) in (2, 3)
        else:
            again = hasattr(data, "__iter__") and not isinstance(data, Iterator)
            is_set = again or _is_indexed(data)
        if not is_set:
            raise InputError(
                "Expected (inputs, labels), or a data set of batches that can be gone through "
                f"again, for the validation set {name!r}, but got {shown(data)}.",
                code="unsupported",
            )
    return sets


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
    return all(hasattr(data, name) for name in ("__getitem__", "__len__", "on_epoch_end"))


def _taken(inputs: Any, part: slice) -> Any:
    """Rows of the inputs, which may be several arrays."""
    if isinstance(inputs, Mapping):
        return {name: _taken(value, part) for name, value in inputs.items()}
    if isinstance(inputs, tuple | list):
        return type(inputs)(_taken(value, part) for value in inputs)
    return inputs[part]


def _rows(labels: Any) -> int:
    return int(labels.shape[0]) if hasattr(labels, "shape") else len(labels)


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
    integers = array.astype(np.int64)
    if array.ndim != 1 or not np.array_equal(integers, array):
        raise InputError(
            f"Expected labels [n] of the validation set {name!r}, whole numbers or one-hot rows, "
            f"but got {array.dtype} {list(array.shape)}."
        )
    return integers


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
    """
    journal = Path(folder, JOURNAL)
    if not journal.is_file():
        raise InputError(
            f"Expected the dirpath of a ReliabilityCheckpoint, but there is no {JOURNAL} in "
            f"{folder}: name the folder that it wrote to.",
            code="missing",
        )
    live = LiveSelector.from_journal(journal)
    path = live.path
    if path is None:
        raise InputError(
            f"Expected a chosen checkpoint, but {journal} has none with its file.", code="missing"
        )
    if model is not None:
        model.load_weights(path)
    elif path.suffix == MODEL:
        model = keras.models.load_model(path)
    else:
        raise InputError(
            f"Expected a model to load {path.name} into, because it holds weights alone: write "
            "load_chosen(folder, model).",
            code="missing",
        )
    if average_within_pp is not None:
        steps = live.members(k, delta_pp=average_within_pp)
        _set_mean(model, [live.checkpoints[step] for step in steps])
    return model


def _set_mean(model: Any, paths: list[Path]) -> None:
    """Put the mean of the trained weights into a model; of equal ones, exactly these."""
    layers = getattr(model, "_flatten_layers", lambda: model.layers)()  # also within the model
    if any(isinstance(layer, keras.layers.BatchNormalization) for layer in layers):
        warnings.warn(
            "The statistics of BatchNormalization are those of the chosen checkpoint, not of the "
            "mean weights: run training examples through the model with training=True before "
            "you use it.",
            CheckwiseWarning,
            stacklevel=3,
        )
    trained = model.trainable_weights
    optimizer = getattr(model, "optimizer", None)
    others = [*model.non_trainable_weights, *(optimizer.variables if optimizer else ())]
    kept = [variable.numpy() for variable in others]
    first: list[Any] = []
    excess: list[Any] = []
    for path in paths:
        model.load_weights(path)
        values = [np.asarray(weight.numpy(), np.float64) for weight in trained]
        first = first or values
        before = excess or [0.0] * len(values)
        excess = [
            total + value - start for total, value, start in zip(before, values, first, strict=True)
        ]
    for weight, start, total in zip(trained, first, excess, strict=True):
        weight.assign(start + total / len(paths))
    for variable, value in zip(others, kept, strict=True):
        variable.assign(value)
