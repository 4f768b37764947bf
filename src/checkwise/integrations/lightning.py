"""A Lightning callback: it keeps the checkpoints that may still be chosen, and names the choice."""

from __future__ import annotations

import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from weakref import proxy

from checkwise.errors import CheckwiseError, CheckwiseWarning, InputError, naming_extras
from checkwise.integrations.callbacks import (
    SINGLE,
    Options,
    check_function,
    local_folder,
    torch_bytes,
    warn_unchanged,
)
from checkwise.integrations.folder import CheckpointFolder, Outcome, Plan
from checkwise.integrations.tracker import PREFIX, Log, Tracker
from checkwise.integrations.validation import (
    ValidationSums,
    in_order,
    measured_together,
    own_rows,
)
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
from checkwise.words import counted, listed

Result = TypeVar("Result")
Outputs = Callable[[Any, Any], tuple[Any, Any]]


@naming_extras()
def _model_checkpoint() -> Any:
    """That of the package that the program imported first, or of the one that is installed.

    `lightning` and `pytorch_lightning` hold the same code as different classes, and a Trainer
    recognises only the callbacks of its own package.
    """
    packages = ("lightning.pytorch", "pytorch_lightning")
    imported = [
        name for name, module in sys.modules.items() if module is not None and name in packages
    ]
    installed = [name for name in packages if find_spec(name.partition(".")[0]) is not None]
    first, *_ = *imported, *installed, *packages
    return import_module(f"{first}.callbacks").ModelCheckpoint


if TYPE_CHECKING:
    from lightning.pytorch.callbacks import ModelCheckpoint
else:
    ModelCheckpoint = _model_checkpoint()


class ReliabilityCheckpoint(ModelCheckpoint):
    """Saves a checkpoint after every validation and deletes those that can no longer be chosen.

    It is a ``ModelCheckpoint``: ``best_model_path`` is the chosen one, ``ckpt_path="best"`` and
    ``"last"`` work, and loggers with ``log_model=True`` upload what it keeps. Records are kept in
    ``checkwise.jsonl`` beside them, and a training that is resumed goes on from there.

    Args:
        rule: a name from ``cw.rules()``, or a whole ``cw.Choice``, with no setting beside it.
        delta_pp: how far below the best accuracy is near-best, in points; by default the rule's.
        domains: names of the validation sets, one per dataloader. By default the keys of a dict of
            dataloaders, ``validation`` for a single one, and ``dataloader_0`` … for several.
        dirpath: a folder on this machine; by default the one that Lightning gives a
            ``ModelCheckpoint``.
        filename: as for ``ModelCheckpoint``.
        logits, labels: keys of what ``validation_step`` returns.
        outputs: ``outputs(returned, batch) -> (logits, labels)``, in place of the two keys; or
            "forward", where ``validation_step`` returns neither: the module is called once more
            with the inputs of each batch of (inputs, labels), and returns logits.
        keep, average_within_pp, predictions, calibrator, tracker: as for every callback, see
            ``checkwise.integrations.callbacks.Options``.
        log, bins, bandwidth, held_out, sources: the same.
        save_weights_only, auto_insert_metric_name: as for ``ModelCheckpoint``.
        weights, worst_domain, directions, guard, tolerance, alpha: as for ``LiveSelector``.
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
        outputs: Literal["forward"] | Outputs | None = None,
        keep: Policy | None = None,
        average_within_pp: Points | None = None,
        predictions: bool | str | os.PathLike[str] = False,
        calibrator: str | None = None,
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
        if dirpath is not None:
            local_folder(dirpath)
        if outputs != "forward":
            check_function(outputs, "outputs", "outputs=lambda returned, batch: (logits, labels)")
        super().__init__(
            dirpath=dirpath,
            filename=filename,
            monitor=f"{PREFIX}/score",
            mode="min",
            save_last="link",
            save_weights_only=save_weights_only,
            auto_insert_metric_name=auto_insert_metric_name,
        )
        self._domains = None if domains is None else _distinct(as_names(domains))
        self._outputs = outputs or ByKey(logits, labels)
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
        self._options = Options(
            Choice.of(rule, **told),
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
        self._checkpoints = CheckpointFolder(self._options)
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
        choice, measuring = self._options.choice.as_dict(), self._options.measuring
        return f"{PREFIX}: {choice} {measuring}, domains {self._domains}"

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
        named, read = self._named(trainer)
        for name, batches in zip(named, trainer.num_val_batches, strict=True):
            if name in read and batches == 0:  # Lightning would leave it out without a word
                raise InputError(
                    f"Expected at least one batch of the validation set {name!r}, but got none: "
                    "check its dataloader, drop_last and limit_val_batches.",
                    code="empty",
                )
        if not trainer.fast_dev_run:
            told = self._goes_on(trainer)
            optimizers = () if self.save_weights_only else trainer.optimizers
            size = torch_bytes(pl_module, optimizers)
            planned = _planned(trainer)
            decided_once(
                trainer, lambda: self._checkpoints.begin(told=told, planned=planned, size=size)
            )
            self._newest = _step(trainer, pl_module) if self._resumes else None
            self._trained_in = self.dirpath

    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to count."""
        if trainer.state.fn != "fit":
            return
        named, read_from = self._named(trainer)
        self._sums = [
            self._options.sums(name, own_rows=own_rows(part), ordered=in_order(part))
            if name in read_from
            else None
            for name, part in zip(named, _flat(trainer.val_dataloaders), strict=True)
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
            if not isinstance(self._outputs, str):
                part.update(*self._outputs(outputs, batch))
                return
            if not isinstance(batch, tuple | list) or len(batch) < 2:
                raise InputError(
                    'Expected batches of (inputs, labels) for outputs="forward", but got '
                    f"{type(batch).__name__}: pass outputs=lambda returned, batch: …"
                )
            with trainer.strategy.precision_plugin.val_step_context():
                part.update(pl_module(batch[0]), batch[1])

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Measure the checkpoint, decide, and log."""
        sums, self._sums, self._outcome = self._sums, [], None
        if not _counts(trainer):
            return
        together = measured_together([part for part in sums if part], trainer.world_size)
        measured = {part.name: part.entry() for part in together}
        entries = {**dict.fromkeys(self._named(trainer)[0]), **measured}
        step = _step(trainer, pl_module)
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
        import torch

        if not _counts(trainer):
            return
        step, outcome = _step(trainer, pl_module), self._outcome
        assert outcome is not None
        if step == self._newest:
            warn_unchanged()
            return
        place = {"epoch": torch.tensor(trainer.current_epoch), "step": torch.tensor(step)}
        metrics = {**trainer.callback_metrics, **place}

        def name(version: int | None) -> str:
            return str(self.format_checkpoint_name(dict(metrics), ver=version))

        plan = decided_once(trainer, lambda: self._checkpoints.plan(outcome, name))
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
            self._checkpoints.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Close the journal; ``teardown`` is not called after an exception."""
        self._checkpoints.close()

    def _named(self, trainer: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """A name per validation dataloader, and the names of those to choose by."""
        named = _names(trainer.val_dataloaders, self._domains)
        return named, self._options.sets_to_read(named, "the validation dataloaders")

    def _goes_on(self, trainer: Any) -> bool:
        """Whether training goes on: from a checkpoint of its own, wherever, or with its Trainer."""
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


def decided_once(trainer: Any, decide: Callable[[], Result]) -> Result:
    """What the first process decides, in every process; an error there is an error everywhere."""
    if trainer.world_size == 1:
        return decide()
    answer: Result | None = None
    failed: Exception | None = None
    if trainer.is_global_zero:
        try:
            answer = decide()
        except Exception as error:
            failed = error
    said = trainer.strategy.broadcast(None if failed is None else str(failed))
    if said is not None:
        raise failed or CheckwiseError(said)
    told: Result = trainer.strategy.broadcast(answer)
    return answer if trainer.is_global_zero else told  # type: ignore[return-value]


def _flat(loaders: Any) -> list[Any]:
    """The dataloaders in the order of their index; Lightning takes one, a list or a dict."""
    if isinstance(loaders, Mapping):
        return [part for value in loaders.values() for part in _flat(value)]
    if isinstance(loaders, list | tuple):
        return [part for value in loaders for part in _flat(value)]
    return [loaders]


def _names(loaders: Any, domains: tuple[str, ...] | None) -> tuple[str, ...]:
    """One name per dataloader."""
    number = len(_flat(loaders))
    if domains is not None:
        if len(domains) != number:
            raise InputError(
                f"Expected one name per validation dataloader, but got {listed(domains)} for "
                f"{counted(number, 'dataloader')}: name each one in domains=.",
                code="differs",
            )
        return domains
    if isinstance(loaders, Mapping) and len(loaders) == number:
        return _distinct(map(str, loaders))
    return (SINGLE,) if number == 1 else tuple(f"dataloader_{i}" for i in range(number))


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    """The names, where no two dataloaders have the same."""
    named = tuple(names)
    twice = [name for name, times in Counter(named).items() if times > 1]
    if twice:
        raise InputError(
            f"Expected a name of its own for each validation dataloader, but {twice[0]!r} is there "
            "twice: name each one in domains=.",
            code="ambiguous",
        )
    return named


def _step(trainer: Any, module: Any) -> int:
    """How far training is: optimizer steps, or batches where Lightning does not count the steps.

    With manual optimisation it counts only the steps of its own wrappers of optimizers.
    """
    if module.automatic_optimization and trainer.optimizers:
        return int(trainer.global_step)
    return int(trainer.fit_loop.total_batch_idx) + 1


def _planned(trainer: Any) -> int:
    """How many validations a training may have; 0 where that is not known."""
    epochs, batches = trainer.max_epochs or 0, trainer.num_training_batches
    every, of_epochs = trainer.val_check_batch, trainer.check_val_every_n_epoch
    if epochs < 1 or not every or isinf(batches) or isinf(every):
        return 0
    if of_epochs is None:
        return int(epochs * batches // every)
    return int(max(1, batches // every) * (epochs // of_epochs))


def _counts(trainer: Any) -> bool:
    """Whether a validation is part of a training, not of a check or of a call of its own."""
    trial = trainer.sanity_checking or trainer.fast_dev_run
    return bool(trainer.state.fn == "fit" and not trial)


@dataclass(frozen=True)
class ByKey:
    """Takes logits and labels from the dict that ``validation_step`` returns."""

    logits: str
    labels: str

    def __call__(self, returned: Any, batch: Any) -> tuple[Any, Any]:
        has_keys = isinstance(returned, Mapping)
        if has_keys and {self.logits, self.labels} <= set(returned):
            return returned[self.logits], returned[self.labels]
        came = list(returned) if has_keys else type(returned).__name__
        raise InputError(
            f"Expected validation_step to return {{{self.logits!r}: …, {self.labels!r}: …}}, but "
            f"got {came}: return them, or pass to ReliabilityCheckpoint the keys, or "
            'outputs="forward", which calls the module once more.'
        )
