"""A Keras callback: it keeps the checkpoints that may still be chosen, and names the choice."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary, ref

from checkwise.errors import CheckwiseWarning, InputError
from checkwise.integrations.callback_arguments import (
    check_flag,
    check_function,
    check_keep,
    check_tracker,
)
from checkwise.integrations.checkpoint_folder import CheckpointFolder, Plan
from checkwise.integrations.keras_package import Callback
from checkwise.integrations.keras_validation import (
    BATCH,
    KINDS,
    Kind,
    Measure,
    load_chosen,
    named_sets,
    sources,
)
from checkwise.integrations.tracker import PREFIX, Log, Tracker, report_to
from checkwise.metrics import BANDWIDTH, BINS, whole
from checkwise.selection import DEFAULT_RULE, Choice, Points, Policy, Selection
from checkwise.store import check_writable
from checkwise.words import shown

__all__ = ["ReliabilityCheckpoint", "load_chosen"]

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
            name.
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
        keep: further checkpoints to keep, as ``KeepLast(2)``; what may still be chosen, the choice
            and the newest always stay.
        average_within_pp: also keep every checkpoint within this many points of the best accuracy,
            as ``1``, for an average: ``members()`` has their steps.
        predictions: keep the logits of validation (of probabilities their logarithms), so that how
            sure the choice is can be said, and a calibrator fitted: True for a folder
            ``predictions`` beside the checkpoints, or name one. ``checkwise select`` reads it.
        calibrator: fit this calibrator, as "ts-soften", to the predictions of the choice, and keep
            it in ``calibrator.json`` beside the checkpoints. It keeps predictions, too.
        tracker: where the selection is logged when training ends, as ``MlflowLog``.
        log: what loggers and the tracker get: "main" is accuracy, NLL and soft CwECE of each set,
            what else the rule looks at, and the choice; "all" is every metric. The journal has all.
        bins, bandwidth: settings of the calibration errors.
        settings: as for ``LiveSelector``: ``held_out``, ``sources``, ``delta_pp``, ``weights`` …
    """

    def __init__(
        self,
        validation: Any,
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
        **settings: Any,
    ) -> None:
        super().__init__()
        self._check(kind, dirpath, resume)
        check_flag(weights_only, "weights_only")
        check_function(outputs, "outputs", "outputs=lambda returned: returned['logits']")
        check_keep(keep)
        check_tracker(tracker)
        sets = named_sets(validation)
        self._names = tuple(sets)
        measuring = {name: settings.pop(name, None) for name in ("held_out", "sources")}
        self._sets = {name: sets[name] for name in sources(self._names, measuring)}
        self._every = whole(every, "every", least=1)
        rows = whole(batch_size, "batch_size", least=1)
        self._folder = Path(os.path.abspath(dirpath))
        self._suffix, self._resume = WEIGHTS if weights_only else MODEL, resume
        self._tracker = tracker
        self._checkpoints = CheckpointFolder(
            Choice.of(rule, **settings),
            keep,
            {"bins": bins, "bandwidth": bandwidth, **measuring},
            average_within_pp=average_within_pp,
            predictions=predictions,
            calibrator=calibrator,
            log=log,
            last=f"last{self._suffix}",
            go_on="pass resume=True",
        )
        self._measure = Measure(
            kind or KINDS[0],
            rows,
            bins,
            bandwidth,
            outputs,
            examples=self._checkpoints.needs_examples,
            logits=self._checkpoints.needs_logits,
        )
        self._newest: int | None = None  # how far training was at the newest checkpoint
        self._reached: tuple[Callable[[], Any], int] = (lambda: None, 0)  # which model, and how far
        self.best_model_path = self.last_model_path = ""

    @staticmethod
    def _check(kind: Any, dirpath: Any, resume: Any) -> None:
        if kind not in KINDS:
            raise InputError(
                f'Expected kind="logits" or kind="probs", but got {shown(kind)}: say what the '
                'model returns. After a softmax or sigmoid it is "probs".'
            )
        if not isinstance(dirpath, str | os.PathLike) or "://" in str(dirpath) or not str(dirpath):
            raise InputError(
                f"Expected a folder of this machine as dirpath, but got {shown(dirpath)}."
            )
        if not isinstance(resume, bool | str | os.PathLike):
            raise InputError(
                f"Expected True, False or a checkpoint as resume, but got {shown(resume)}."
            )

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
        try:
            check_writable(self._folder / "checkpoint")
        except OSError as error:
            raise InputError(
                f"Expected a folder to write to, but got at {self._folder}: {error.strerror}. "
                "Choose another dirpath.",
                code="system",
            ) from error
        model, step = self._reached
        again = model() is self.model and step == self._step()
        source, plan = self._open(newest=again or self._resume is True)
        try:
            if source is not None and not again:
                self._load(Path(source))
            self._checkpoints.check_continues(told=again or self._loaded(plan))
            self._newest = self._step() if again or self._loaded(plan) else None
            self._follow(plan)
            for name, data in self._sets.items():
                self._measure.check(self.model, name, data)
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
            warnings.warn(
                "No optimizer step since the last checkpoint: the weights are the same, and are "
                "not saved again.",
                CheckwiseWarning,
                stacklevel=2,
            )
            return
        entries: dict[str, Any] = dict.fromkeys(self._names)  # what is held out is not read
        for name, data in self._sets.items():
            entries[name] = self._measure(self.model, name, data)
        outcome = self._checkpoints.weigh(step, entries)
        plan = self._checkpoints.plan(step, outcome, lambda number: self._name(epoch, step, number))
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
        report_to(self._tracker, self.selection, self._checkpoints.log)
        self._checkpoints.say_members(of_keras=True)
        self._checkpoints.close()

    def _open(self, *, newest: bool) -> tuple[Path | None, Plan]:
        """Open the journal, also where a training in this process was interrupted; the source."""
        if (before := _OPEN.get(self._folder)) is not None:
            before.close()
        _OPEN[self._folder] = self._checkpoints
        if not newest:
            source = None if isinstance(self._resume, bool) else Path(self._resume)
            return source, self._checkpoints.open(
                self._folder, None if source is None else str(source)
            )
        source = self._checkpoints.newest_file(self._folder)
        plan = self._checkpoints.open(self._folder, None if source is None else str(source))
        if source is None and (source := self._checkpoints.newest_file(self._folder)) is not None:
            plan = self._checkpoints.open(self._folder, str(source))  # the link had been lost
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
        if self.model.optimizer is not None and not self.model.optimizer.built:
            self.model.optimizer.build(self.model.trainable_variables)
        self.model.load_weights(source.resolve())
        self.model._initial_epoch = int(match[1])

    def _loaded(self, plan: Plan) -> bool:
        """Whether the model is where the checkpoint was that it goes on from."""
        return plan.number is not None and self._resume is not False

    def _step(self) -> int:
        """Optimizer steps so far."""
        optimizer = getattr(self.model, "optimizer", None)
        if optimizer is None:
            raise InputError(
                "Expected a compiled model with an optimizer, but it has none.", code="unsupported"
            )
        return int(optimizer.iterations)

    def _name(self, epoch: int, step: int, number: int | None) -> str:
        version = "" if number is None else f"-v{number}"
        return str(self._folder / f"epoch-{epoch + 1:04d}-step-{step:06d}{version}{self._suffix}")

    def _follow(self, plan: Plan) -> None:
        self.best_model_path, self.last_model_path = plan.best, plan.last


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
