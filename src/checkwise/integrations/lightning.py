"""A Lightning callback: it keeps the checkpoints that may still be chosen, and names the choice."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import proxy

from checkwise.errors import CheckwiseWarning, InputError, naming_extras
from checkwise.integrations import lightning_validation
from checkwise.integrations.callback_arguments import (
    check_function,
    check_keep,
    check_text,
    check_tracker,
)
from checkwise.integrations.checkpoint_folder import CheckpointFolder, Outcome, Plan
from checkwise.integrations.saving import decided_once, gathered
from checkwise.integrations.tracker import PREFIX, Log, Tracker, report_to
from checkwise.integrations.validation_sums import ValidationSums, in_order, merged, own_rows
from checkwise.metrics import BANDWIDTH, BINS
from checkwise.records import as_names
from checkwise.selection import (
    DEFAULT_RULE,
    Choice,
    Directions,
    Points,
    Policy,
    Selection,
    Ties,
    Weights,
)


@naming_extras()
def _model_checkpoint() -> Any:
    """That of the package that the program imported first, or of the one that is installed.

    `lightning` and `pytorch_lightning` hold the same code as different classes, and a Trainer
    recognises only the callbacks of its own package.
    """
    packages = ("lightning.pytorch", "pytorch_lightning")
    imported = [name for name in sys.modules if name in packages]
    installed = [name for name in packages if find_spec(name.partition(".")[0]) is not None]
    first, *_ = *imported, *installed, *packages
    return import_module(f"{first}.callbacks").ModelCheckpoint


if TYPE_CHECKING:
    from lightning.pytorch.callbacks import ModelCheckpoint
else:
    ModelCheckpoint = _model_checkpoint()


class ReliabilityCheckpoint(ModelCheckpoint):
    """Saves a checkpoint after every validation and deletes those that can no longer be chosen.

    It is a ``ModelCheckpoint``: ``best_model_path`` is the chosen checkpoint, ``ckpt_path="best"``
    and ``"last"`` work, and loggers with ``log_model=True`` upload what it keeps. The files are
    ordinary Lightning checkpoints. Records are kept in ``checkwise.jsonl`` beside them, and a
    training that is resumed goes on from there.

    Args:
        rule: a name from ``cw.rules()``, or a whole ``cw.Choice``, with no setting beside it.
        delta_pp: how far below the best accuracy is near-best, in points; by default the rule's.
        domains: names of the validation sets, one per dataloader. By default the keys of a dict of
            dataloaders, ``validation`` for a single one, and ``dataloader_0`` … for several.
        dirpath: a folder on this machine; by default the one that Lightning gives a
            ``ModelCheckpoint``.
        filename: as for ``ModelCheckpoint``.
        logits, labels: keys of what ``validation_step`` returns.
        outputs: ``outputs(returned, batch) -> (logits, labels)``, in place of the two keys.
        keep: further checkpoints to keep, as ``KeepLast(2) | KeepEvery(1000)``; what may still be
            chosen, the choice and the newest always stay.
        average_within_pp: also keep every checkpoint within this many points of the best accuracy,
            as ``1``, for an average: ``members()`` has their steps, and ``checkwise deploy DIRPATH
            --average all`` makes it. A line on stderr says so when training ends.
        predictions: keep the logits of validation, so that how sure the choice is can be said, and
            a calibrator fitted: True for a folder ``predictions`` beside the checkpoints, or name
            one. ``checkwise select`` reads it.
        calibrator: fit this calibrator, as "ts-soften", to the predictions of the choice, and keep
            it in ``calibrator.json`` beside the checkpoints. It keeps predictions, too.
        partial: record validations that ``limit_val_batches`` cuts short too. They have to see the
            same examples each time.
        tracker: where the selection is logged when training ends, as ``MlflowLog``.
        log: what loggers and the tracker get: "main" is accuracy, NLL and soft CwECE of each set,
            what else the rule looks at, and the choice; "all" is every metric. The journal has all.
        save_weights_only, auto_insert_metric_name: as for ``ModelCheckpoint``.
        bins, bandwidth: settings of the calibration errors.
        held_out, sources, weights, worst_domain, directions, guard, tolerance, alpha: as for
            ``LiveSelector``.
        constraint, delta, objectives, q, ties: parameters of the rule, where it takes them.
        params: those of rules that other packages offer.
    """

    def __init__(
        self,
        rule: str | Choice = DEFAULT_RULE,
        *,
        delta_pp: Points | None = None,
        domains: str | Iterable[str] | None = None,
        dirpath: str | os.PathLike[str] | None = None,
        filename: str | None = None,
        logits: str = "logits",
        labels: str = "labels",
        outputs: lightning_validation.Outputs | None = None,
        keep: Policy | None = None,
        average_within_pp: Points | None = None,
        predictions: bool | str | os.PathLike[str] = False,
        calibrator: str | None = None,
        partial: bool = False,
        tracker: Tracker | None = None,
        log: Log = "main",
        save_weights_only: bool = False,
        auto_insert_metric_name: bool = True,
        bins: int = BINS,
        bandwidth: float = BANDWIDTH,
        held_out: str | Iterable[str] | None = None,
        sources: str | Iterable[str] | None = None,
        weights: Weights | None = None,
        worst_domain: bool | None = None,
        directions: Directions | None = None,
        guard: bool | None = None,
        tolerance: str | None = None,
        alpha: float | None = None,
        constraint: str | None = None,
        delta: Points | None = None,
        objectives: str | Iterable[str] | None = None,
        q: float | None = None,
        ties: Ties | None = None,
        **params: Any,
    ) -> None:
        if "://" in str(dirpath):
            raise InputError(
                f"Expected a folder of this machine as dirpath, but got {dirpath}: what is saved "
                "there cannot be synced before older checkpoints are deleted."
            )
        check_keep(keep)
        check_tracker(tracker)
        check_function(outputs, "outputs", "outputs=lambda returned, batch: (logits, labels)")
        check_text(filename, "filename", "{epoch}-{step}")
        check_text(logits, "logits", "logits")
        check_text(labels, "labels", "labels")
        super().__init__(
            dirpath=dirpath,
            filename=filename,
            monitor=f"{PREFIX}/score",
            mode="min",
            save_last="link",
            save_weights_only=save_weights_only,
            auto_insert_metric_name=auto_insert_metric_name,
        )
        self._domains = None if domains is None else as_names(domains)
        lightning_validation.check_distinct(self._domains or ())
        self._outputs = outputs or lightning_validation.ByKey(logits, labels)
        self._partial, self._tracker = partial, tracker
        self._bins, self._bandwidth = bins, bandwidth
        self._measuring = {
            "bins": bins,
            "bandwidth": bandwidth,
            "held_out": held_out,
            "sources": sources,
        }
        settings = {
            "weights": weights,
            "worst_domain": worst_domain,
            "directions": directions,
            "guard": guard,
            "tolerance": tolerance,
            "alpha": alpha,
            "delta_pp": delta_pp,
            "constraint": constraint,
            "delta": delta,
            "objectives": objectives,
            "q": q,
            "ties": ties,
            **params,
        }
        told = {name: value for name, value in settings.items() if value is not None}
        self._checkpoints = CheckpointFolder(
            Choice.of(rule, **told),
            keep,
            self._measuring,
            average_within_pp=average_within_pp,
            predictions=predictions,
            calibrator=calibrator,
            log=log,
        )
        self._sums: list[ValidationSums | None] = []  # None for a set that is held out
        self._outcome: Outcome | None = None
        self._followed = Plan()
        self._resumes = False
        self._saved_in: str | None = None
        self._trained_in: str | None = None
        self._newest: int | None = None  # how far training was at the newest checkpoint

    @property
    def state_key(self) -> str:
        """Tells two of these callbacks apart within a checkpoint."""
        return f"{PREFIX}: {self._checkpoints.described}, domains {self._domains}"

    @property
    def selection(self) -> Selection | None:
        """The selection among the checkpoints so far, in the process that saves them."""
        return self._checkpoints.selection

    def members(self, k: int | None = None) -> tuple[int, ...]:
        """The steps of an average, all or ``k`` spread over them, in the process that saves."""
        return self._checkpoints.members(k)

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Open the journal, and finish what a killed training left undone."""
        if self not in trainer.checkpoint_callbacks:
            own, other = (
                kind.__module__.partition(".")[0] for kind in (ModelCheckpoint, type(trainer))
            )
            raise InputError(
                f"Expected a Trainer of {own}, but got one of {other}: import {other} before "
                "checkwise.integrations.lightning.",
                code="differs",
            )
        if not trainer.fast_dev_run:
            folder = Path(str(self.dirpath))
            plan = decided_once(trainer, lambda: self._checkpoints.open(folder, trainer.ckpt_path))
            self._resumes = plan.number is not None
            self._follow(plan)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Close the journal."""
        super().teardown(trainer, pl_module, stage)
        if stage == "fit":
            self._checkpoints.close()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Only the folder: the journal knows more than the checkpoint that is resumed from."""
        self._saved_in = state_dict.get("dirpath")

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Refuse what saves nothing, what writes over ``last.ckpt``, and records of others."""
        for other in trainer.checkpoint_callbacks:
            shares = getattr(other, "dirpath", None) == self.dirpath
            if other is not self and shares and getattr(other, "save_last", None):
                raise InputError(
                    f"Expected to be alone in {self.dirpath}, but another {type(other).__name__} "
                    "writes last.ckpt there: give each its own dirpath.",
                    code="busy",
                )
        if not trainer.enable_validation:
            raise InputError(
                "Expected a validation during the training, but there is none: give the Trainer a "
                "validation dataloader and the module a validation_step.",
                code="missing",
            )
        lightning_validation.check_not_empty(trainer, self._domains, self._measuring)
        if not trainer.fast_dev_run:
            told = self._goes_on(trainer)
            decided_once(trainer, lambda: self._checkpoints.check_continues(told=told))
            self._newest = lightning_validation.step(trainer, pl_module) if self._resumes else None
            self._trained_in = self.dirpath

    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to count."""
        if trainer.state.fn != "fit":
            return
        parts = lightning_validation.flat(trainer.val_dataloaders)
        names = lightning_validation.names(trainer.val_dataloaders, self._domains)
        sources = lightning_validation.sources(names, self._measuring)
        self._sums = [
            ValidationSums(
                name,
                self._bins,
                self._bandwidth,
                own_rows(part),
                examples=self._checkpoints.needs_examples or in_order(part),
                logits=self._checkpoints.needs_logits,
            )
            if name in sources
            else None
            for name, part in zip(names, parts, strict=True)
        ]
        read = [part for part in self._sums if part is not None]
        if trainer.world_size > 1 and any(part.own_rows is None for part in read):
            warnings.warn(
                "A validation dataloader has no DistributedSampler: every row that any process "
                "sees is counted. Make sure that no two processes see the same one.",
                CheckwiseWarning,
                stacklevel=2,
            )

    def on_validation_batch_end(
        self,
        trainer: Any,
        pl_module: Any,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Add a batch to the sums of its validation set."""
        if self._sums and (part := self._sums[dataloader_idx]) is not None:
            part.update(*self._outputs(outputs, batch))

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Measure the checkpoint, decide, and log."""
        sums, self._sums, self._outcome = self._sums, [], None
        if not lightning_validation.counts(trainer):
            return
        read = [part is not None for part in sums]
        if not self._partial and lightning_validation.cut_short(trainer, read):
            warnings.warn(
                f"limit_val_batches={trainer.limit_val_batches} cuts validation short: the "
                "checkpoint is saved and not recorded, so it cannot be chosen. Pass partial=True "
                "if every validation sees the same examples.",
                CheckwiseWarning,
                stacklevel=2,
            )
            return
        names = lightning_validation.names(trainer.val_dataloaders, self._domains)
        entries = dict.fromkeys(names) | _entries(trainer, [part for part in sums if part])
        step = lightning_validation.step(trainer, pl_module)
        again = step == self._newest
        outcome = decided_once(trainer, lambda: self._checkpoints.weigh(step, entries, again=again))
        # Every process has the same numbers, of which the largest is each: exact for any number.
        self.log_dict(
            {f"{PREFIX}/{name}": value for name, value in outcome.logged.items()},
            sync_dist=trainer.world_size > 1,
            reduce_fx="max",
        )
        self._outcome = outcome

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Save the checkpoint, then delete what can no longer be chosen."""
        if not lightning_validation.counts(trainer):
            return
        step, outcome = lightning_validation.step(trainer, pl_module), self._outcome
        if step == self._newest:
            warnings.warn(
                "No optimizer step since the last checkpoint: the weights are the same, and are "
                "not saved again.",
                CheckwiseWarning,
                stacklevel=2,
            )
            return
        metrics = {**trainer.callback_metrics, **_place_in_training(trainer, step)}
        plan = decided_once(
            trainer,
            lambda: self._checkpoints.plan(
                step,
                outcome,
                lambda version: self.format_checkpoint_name(dict(metrics), ver=version),
            ),
        )
        followed = self._followed
        self._follow(plan)  # before the save: it is part of the file
        try:
            with self._checkpoints.saving(plan, first=trainer.is_global_zero):
                trainer.save_checkpoint(plan.part, self.save_weights_only)
        except BaseException:
            self._follow(followed)
            raise
        decided_once(trainer, lambda: self._checkpoints.commit(outcome, plan))
        self._newest = step
        if trainer.is_global_zero:
            for logger in trainer.loggers:
                logger.after_save_checkpoint(proxy(self))
        decided_once(trainer, self._checkpoints.prune)

    def on_train_batch_end(self, *_: Any) -> None:
        """Nothing is saved between validations."""

    def on_train_epoch_end(self, *_: Any) -> None:
        """Nothing is saved between validations."""

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Log the selection to the tracker, and say what to average."""
        if trainer.is_global_zero and not trainer.fast_dev_run:
            report_to(self._tracker, self.selection, self._checkpoints.log)
            self._checkpoints.say_members()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Close the journal; ``teardown`` is not called after an exception."""
        self._checkpoints.close()

    def _goes_on(self, trainer: Any) -> bool:
        """Whether training goes on from a checkpoint of its own that may be elsewhere.

        Or the same Trainer trains again, from where it was.
        """
        if trainer.ckpt_path is None:
            return bool(trainer.fit_loop.total_batch_idx >= 0 and self._trained_in == self.dirpath)
        came_from, goes_to = self._saved_in, str(self.dirpath)
        return came_from is not None and os.path.realpath(came_from) == os.path.realpath(goes_to)

    def _follow(self, plan: Plan) -> None:
        """What Lightning and its loggers read of a ``ModelCheckpoint``."""
        import torch

        self._followed = plan
        self.best_model_path = plan.best
        self.last_model_path = plan.last
        self.best_k_models = {
            path: torch.tensor(score, dtype=torch.float64) for path, score in plan.scores.items()
        }
        self.best_model_score = self.best_k_models.get(plan.best)
        self.current_score = self.best_k_models.get(plan.path)


def _entries(trainer: Any, sums: list[ValidationSums]) -> dict[str, Any]:
    """Domain → metrics over all processes."""
    if trainer.world_size > 1:
        sums = [merged(parts) for parts in zip(*gathered(sums), strict=True)]
    return {part.name: part.entry() for part in sums}


def _place_in_training(trainer: Any, step: int) -> dict[str, Any]:
    import torch

    return {"epoch": torch.tensor(trainer.current_epoch), "step": torch.tensor(step)}
