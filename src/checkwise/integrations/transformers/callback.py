"""Selection inside a Trainer of transformers: the callback."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary, ref

from checkwise.errors import CheckwiseWarning, InputError, naming_extras
from checkwise.integrations.callbacks import SINGLE, Options, torch_bytes
from checkwise.integrations.folder import JOURNAL, check_new
from checkwise.integrations.live import LiveSelector
from checkwise.integrations.tracker import Log, Tracker
from checkwise.integrations.transformers import checkpoints
from checkwise.integrations.transformers.metrics import ComputeMetrics, Outputs, ReliabilityMetrics
from checkwise.integrations.validation import in_order
from checkwise.metrics import BANDWIDTH, BINS, MAIN, NAMES
from checkwise.records import as_names, looks_held_out
from checkwise.selection import DEFAULT_RULE, Choice, Points, Policy, Selection

with naming_extras():
    from transformers import TrainerCallback  # first, so that it is named where neither is there
with naming_extras():
    from accelerate import PartialState
    from accelerate.state import AcceleratorState
    from accelerate.utils import DistributedType, broadcast_object_list

_PREFIX: Final = "eval"
METRIC: Final = "checkwise"
_PLATEAU: Final = ("reduce_lr_on_plateau", "greedy", "ReduceLROnPlateau", "GreedyLR")
# Whose logits and labels are not one classification each, although the shapes may fit.
_OTHER_TASKS: Final = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
# These save and load weights in their own ways, and every process has to take part.
_SHARDED: Final = (DistributedType.FSDP, DistributedType.DEEPSPEED, DistributedType.MEGATRON_LM)

_log = logging.getLogger(__name__)
_OPEN: WeakValueDictionary[Path, LiveSelector] = WeakValueDictionary()


@dataclass(frozen=True)
class Decision:
    """What every process has to know: the choice, its score, and whether patience has ended."""

    choice: int | None = None
    score: float | None = None
    stop: bool = False


class ReliabilityCallback(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Chooses the best checkpoint of a Trainer by a rule, and deletes what cannot be chosen.

    Give the same object twice, as ``compute_metrics`` and as a callback::

        r = ReliabilityCallback(rule="ac-nc", delta_pp=0.5)
        Trainer(..., compute_metrics=r.compute_metrics, callbacks=[r])

    and ``metric_for_best_model="checkwise"`` in the ``TrainingArguments``. Each evaluation at which
    the Trainer also saves is a candidate, but not one before the first step. With
    ``load_best_model_at_end=True`` the model is the chosen one after training. Another
    ``metric_for_best_model`` is what ``EarlyStoppingCallback`` waits for; the rule chooses all the
    same. Above ``save_total_limit`` stay the checkpoints that may still be chosen.

    A training that is over, at its last step or by ``patience``, may be resumed: nothing is
    trained, recorded or saved, and the choice is the same.

    Args:
        rule: a name from :func:`checkwise.rules`, or a whole :class:`checkwise.Choice`.
        compute_metrics: your own function, called too. A rule may use what it returns.
        outputs: ``EvalPrediction`` → (logits, labels), where the first output or the labels of
            your model are something else.
        patience: stop training when the chosen checkpoint is followed by this many evaluations.
        journal: the file with every record, from which a resumed training goes on; by default
            ``checkwise.jsonl`` in the output folder.
        keep, average_within_pp, predictions, calibrator, tracker: as for every callback, see
            ``checkwise.integrations.callbacks.Options``.
        log, bins, bandwidth, held_out, sources: the same.
        settings: as for :class:`checkwise.LiveSelector`.
    """

    def __init__(
        self,
        rule: str | Choice = DEFAULT_RULE,
        *,
        compute_metrics: ComputeMetrics | None = None,
        outputs: Outputs | None = None,
        patience: int | None = None,
        keep: Policy | None = None,
        average_within_pp: Points | None = None,
        predictions: bool | str | os.PathLike[str] = False,
        calibrator: str | None = None,
        journal: str | Path | None = None,
        tracker: Tracker | None = None,
        log: Log = "main",
        bins: int = BINS,
        bandwidth: float = BANDWIDTH,
        held_out: str | Iterable[str] | None = None,
        sources: str | Iterable[str] | None = None,
        **settings: Any,
    ) -> None:
        if patience is not None and (type(patience) is not int or patience < 1):
            raise InputError(f"Expected patience of 1 or more evaluations, but got {patience!r}.")
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
        self._live = self._options.selector()
        self._metrics = ReliabilityMetrics(
            compute_metrics,
            outputs=outputs,
            bins=bins,
            bandwidth=bandwidth,
            examples=self._options.needs_examples,
            logits=self._options.needs_logits,
            names=NAMES if log == "all" else tuple(dict.fromkeys((*MAIN, *self._live.looks_at))),
        )
        self._any_model, self._patience, self._journal = outputs is not None, patience, journal
        self._further = tuple(m for m in self._live.looks_at if m not in NAMES)
        self._decision = Decision()
        self._training = False
        self._step = 0
        self._arrived: dict[str, Any] = {}
        self._added: tuple[str, ...] = ()
        self._over = False
        self._undo: Callable[[], None] = lambda: None
        self._warned = self._names_checked = False
        self._limit: int | None = None
        self._evaluated: Callable[[], Any] = lambda: None

    @property
    def compute_metrics(self) -> ReliabilityMetrics:
        """For ``Trainer(compute_metrics=…)``; streams with ``batch_eval_metrics=True``."""
        return self._metrics

    @property
    def choice(self) -> int | None:
        """The step chosen so far, in every process."""
        return self._decision.choice

    @property
    def live(self) -> LiveSelector:
        """Everything recorded; in a distributed training, in the first process."""
        return self._live

    @property
    def selection(self) -> Selection | None:
        """The selection so far, which explains itself; in the first process."""
        return self._live.selection

    def members(self, k: int | None = None) -> tuple[int, ...]:
        """The steps of an average, all or ``k`` spread over them; in the first process."""
        return self._options.members(self._live, k)

    def on_init_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Refuse what would undo the choice; set half-written checkpoints aside."""
        check_arguments(args)
        check_callbacks(args, state)
        if not self._any_model:
            check_model(kwargs.get("model"))
        if state.is_world_process_zero and self._path(args).exists():
            # Whoever trains there holds the journal, so nothing is renamed under a running save.
            with self._open(args):
                checkpoints.set_aside_incomplete(args.output_dir)
        PartialState().wait_for_everyone()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Rebuild the selection up to the step from which training goes on."""
        check_training(args, state, kwargs.get("lr_scheduler"))
        self._lift_limit(args, state)
        if state.global_step > 0:
            self._load(
                checkpoints.folder_of(args.output_dir, state.global_step), kwargs.get("model")
            )
        self._metrics.reset()
        self._step, self._arrived, self._added = 0, {}, ()
        # A smaller batch size after an error of memory is the same training.
        retried, self._training = self._training and args.auto_find_batch_size, False
        if state.is_world_process_zero:
            self._live = self._open(args)
            if state.global_step == 0 and not retried:
                go_on = (
                    "use trainer.train(resume_from_checkpoint=True), or choose another output_dir"
                )
                there = checkpoints.whole_checkpoints(args.output_dir)
                check_new(self._live, self._path(args), go_on, there)
            checkpoints.set_aside_later(args.output_dir, self._live.checkpoints, state.global_step)
            self._live.resume(state.global_step)
            noted = state.global_step in self._live.checkpoints
            if noted or (
                state.global_step in self._live.steps and self._note_saved(args, state.global_step)
            ):
                self._live.prune(self._options.policy())  # which a kill may have prevented
            self._say_disk(args, state, **kwargs)
        self._training = True
        self._decide(args, state)
        if self.choice is None and not is_plain(args):
            state.best_global_step = state.best_metric = state.best_model_checkpoint = None
        self._over = state.global_step >= state.max_steps or self._decision.stop
        control.should_training_stop |= self._over

    # A Trainer that resumes a training that is over trains a batch before it looks whether to stop.
    # That batch is undone: it changes no weight and no buffer, and it is not counted or saved.

    def on_step_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any
    ) -> None:
        """Remember what a batch changes in a training that is over."""
        if self._over:
            counted = {name: getattr(state, name) for name in ("global_step", "epoch")}
            buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]

            def undo() -> None:
                state.__dict__.update(counted)
                for buffer, before in buffers:
                    buffer.copy_(before)

            self._undo = undo

    def on_pre_optimizer_step(
        self, args: Any, state: Any, control: Any, optimizer: Any = None, **kwargs: Any
    ) -> None:
        """Let a training that is over have no gradients: then no optimizer changes a weight."""
        if self._over:
            optimizer.zero_grad(set_to_none=True)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Count, evaluate and save nothing in a training that is over."""
        if self._over:
            self._undo()
            control.should_log = control.should_evaluate = control.should_save = False

    on_substep_end = on_epoch_end = on_step_end

    def on_prediction_step(
        self, args: Any, state: Any, control: Any, eval_dataloader: Any = None, **kwargs: Any
    ) -> None:
        """Forget the batches of an evaluation that was interrupted; a Trainer says no start."""
        if eval_dataloader is not None and self._evaluated() is not eval_dataloader:
            self._evaluated = ref(eval_dataloader)
            self._metrics.reset()

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: dict[str, Any], **kwargs: Any
    ) -> None:
        """Add an evaluation set; choose once all sets of the step are there."""
        if not self._training:
            return
        name = _set_name(metrics)
        if name is None:
            _refuse_without_metrics(metrics)
            return
        # The Trainer compares it with the best so far. Comparisons with NaN are false, so the
        # Trainer never overrules the choice.
        if not is_plain(args):
            metrics[f"{_PREFIX}_{METRIC}"] = float("nan")
        if state.global_step == 0:
            return
        if not control.should_save:
            self._warn_unsaved(state.global_step, "evaluated but not saved, so it cannot be chosen")
            return
        if state.global_step != self._step:
            self._step, self._arrived, self._added = state.global_step, {}, ()
        self._arrived[name] = self._entry(name)
        if state.is_world_process_zero and self._is_ready():
            self._live.add(self._step, self._arrived)
            self._added = self._sources()
        self._decide(args, state)
        if self._decision.stop:
            control.should_training_stop = True

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note the checkpoint that is whole now; delete those that can no longer be chosen."""
        if not self._training:
            return
        PartialState().wait_for_everyone()  # each process writes its part of the folder
        if is_plain(args) and self.choice is not None:
            # The Trainer named what is best by its own number, and wrote that down.
            self._name_choice(args, state)
            if args.should_save:
                folder = checkpoints.folder_of(args.output_dir, state.global_step)
                state.save_to_json(str(folder / checkpoints.STATE))
        if not state.is_world_process_zero:
            return
        if self._arrived and not self._added:
            self._live.add(self._step, self._arrived)  # says which set is missing
        if not self._note_saved(args, state.global_step):
            return
        if state.global_step not in self._live.steps:
            self._warn_unsaved(
                state.global_step,
                "saved but not evaluated, so it cannot be chosen and is deleted with the next save",
            )
        folder, model = checkpoints.folder_of(args.output_dir, state.global_step), kwargs["model"]
        if args.load_best_model_at_end and not self._names_checked and _differs(folder, model):
            checkpoints.weights_of(folder, model)  # refused now, not when training is over
        self._names_checked = True
        self._live.prune(self._options.policy())

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Close the journal, log the selection, say what to average; nothing later is recorded."""
        if args.load_best_model_at_end and state.best_model_checkpoint is not None:
            self._load(Path(state.best_model_checkpoint), kwargs.get("model"))
        self._training = False
        args.save_total_limit, self._limit = args.save_total_limit or self._limit, None
        self._live.close()
        if state.is_world_process_zero:
            self._options.end(self._live, Path(args.output_dir))

    def _say_disk(
        self, args: Any, state: Any, model: Any = None, optimizer: Any = None, **_: Any
    ) -> None:
        """How much the checkpoints near the best may take."""
        saves = state.max_steps // max(1, state.save_steps)
        planned = state.num_train_epochs if _value(args.save_strategy) == "epoch" else saves
        optimizers = [] if optimizer is None or args.save_only_model else [optimizer]
        size = 0 if model is None else torch_bytes(model, optimizers)
        self._options.say_disk(self._live, Path(args.output_dir), planned=planned, size=size)

    def _path(self, args: Any) -> Path:
        return Path(self._journal or Path(args.output_dir) / JOURNAL)

    def _open(self, args: Any) -> LiveSelector:
        """The journal, also where a training in this process was interrupted and left it open."""
        path = self._path(args).resolve()
        if (before := _OPEN.get(path)) is not None:
            before.close()
        live = self._options.selector(self._path(args), checkpoints=args.output_dir)
        _OPEN[path] = live
        return live

    def _entry(self, name: str) -> Any:
        """What is recorded of the evaluation that just ended."""
        returned, report = self._metrics.returned, self._metrics.report
        absent = [metric for metric in self._further if metric not in returned]
        if absent:
            raise InputError(
                f"Expected {', '.join(absent)} for the rule, but compute_metrics returned "
                f"{', '.join(returned)} of {name!r}: return it from compute_metrics= of the "
                "callback.",
                code="missing",
            )
        examples = self._options.needs_examples or self._options.needs_logits
        if report is not None and not (examples or in_order(self._evaluated())):
            report = replace(report, examples=None)  # another order would be no other set
        if report is not None and not self._further:
            return report
        kept = {} if report is None or report.examples is None else {"examples": report.examples}
        further = {metric: returned[metric] for metric in self._further}
        return {**self._metrics.values, **further, "n": returned["n"], **kept}

    def _sources(self) -> tuple[str, ...]:
        """The sets that arrived and are not held out."""
        aside, sources = as_names(self._options.held_out), as_names(self._options.sources)
        return tuple(
            name
            for name in sorted(self._arrived)
            if name not in aside and (name in sources or not looks_held_out(name))
        )

    def _is_ready(self) -> bool:
        """Whether the sets that arrived can be recorded, and were not yet.

        From the second evaluation on, the names are known. In the first one nobody says how many
        sets will come, so each replaces the record of the one before; when the checkpoint is
        saved, all of them are in it.
        """
        named = {*as_names(self._options.held_out), *as_names(self._options.sources)}
        others = [step for step in self._live.steps if step != self._step]
        known = set(self._live.domains) if others else set()
        sources = self._sources()
        return bool(sources) and sources != self._added and named | known <= set(self._arrived)

    def _decide(self, args: Any, state: Any) -> None:
        """Tell every process and the Trainer's state what the first process chose."""
        decision = Decision()
        if state.is_world_process_zero and (chosen := self._live.selection):
            later = sum(step > chosen.step for step in self._live.steps)
            stop = self._patience is not None and later >= self._patience
            decision = Decision(chosen.step, float(chosen.score), stop)
        (self._decision,) = broadcast_object_list([decision])
        if self._decision.choice is None or (is_plain(args) and self._arrived):
            return  # with a number of its own, the Trainer comes first, and `on_save` last
        self._name_choice(args, state)
        if not is_plain(args):
            state.best_metric = self._decision.score

    def _name_choice(self, args: Any, state: Any) -> None:
        state.best_global_step = self.choice
        assert self.choice is not None
        folder = checkpoints.folder_of(args.output_dir, self.choice)
        if folder.is_dir():
            state.best_model_checkpoint = str(folder)

    def _lift_limit(self, args: Any, state: Any) -> None:
        """Take over what a Trainer would delete: near-best checkpoints stay above its limit."""
        if args.save_total_limit is None:
            return
        self._limit, args.save_total_limit = args.save_total_limit, None
        if state.is_world_process_zero:
            warnings.warn(
                f"save_total_limit={self._limit} counts no checkpoint that may still be chosen: "
                "these stay, and the others are deleted at once.",
                CheckwiseWarning,
                stacklevel=2,
            )

    def _note_saved(self, args: Any, step: int) -> bool:
        """Whether the checkpoint of a step is whole; if so, the journal learns of it."""
        folder = checkpoints.folder_of(args.output_dir, step)
        if whole := checkpoints.is_whole(folder):
            self._live.saved(step, folder)
        return whole

    def _load(self, folder: Path, model: Any) -> None:
        """Load a checkpoint of which a Trainer loads only the weights whose names are the same."""
        if _differs(folder, model):
            model.load_state_dict(checkpoints.weights_of(folder, model))

    def _warn_unsaved(self, step: int, what: str) -> None:
        if not self._warned:
            _log.warning(
                "Step %d was %s: set save_strategy and save_steps to the same as eval_strategy and "
                "eval_steps.",
                step,
                what,
            )
        self._warned = True


def _differs(folder: Path, model: Any) -> bool:
    if model is None or not folder.is_dir() or AcceleratorState().distributed_type in _SHARDED:
        return False
    return checkpoints.difference(folder, model) is not None


def _refuse_without_metrics(metrics: Mapping[str, Any]) -> None:
    if any(key.startswith(f"{_PREFIX}_") and key.endswith("_runtime") for key in metrics):
        raise InputError(
            "Expected the metrics of r.compute_metrics in an evaluation, but got "
            f"{', '.join(metrics)}: write Trainer(compute_metrics=r.compute_metrics, callbacks=[r])"
            " with the same r, and check that the evaluation set has labels.",
            code="missing",
        )


def _set_name(metrics: Mapping[str, Any]) -> str | None:
    """The evaluation set of a Trainer's metrics; None where it is another evaluation.

    Their keys begin with ``eval_`` where there is one set, and with ``eval_<set>_`` otherwise.
    """
    last = "_nll"
    prefixes = [key.removesuffix(last) for key in metrics if key.endswith(last)]
    for prefix in prefixes:
        if all(f"{prefix}_{name}" in metrics for name in (*MAIN, "n")):
            if prefix == _PREFIX:
                return SINGLE
            return prefix.removeprefix(f"{_PREFIX}_") if prefix.startswith(f"{_PREFIX}_") else None
    return None


def is_plain(args: Any) -> bool:
    """Whether the Trainer compares checkpoints by a number of its own."""
    return args.metric_for_best_model not in (None, METRIC, f"eval_{METRIC}")


def check_arguments(args: Any) -> None:
    """Refuse ``TrainingArguments`` under which the choice may not have been saved."""
    if _value(args.save_strategy) == "best":
        raise InputError(
            'Expected save_strategy="steps" or "epoch", but got "best": the choice can return to '
            "an earlier checkpoint, so each has to be saved. Set it to the same as eval_strategy.",
            code="unsupported",
        )
    _check_schedule(args, _value(args.lr_scheduler_type))


def check_training(args: Any, state: Any, lr_scheduler: Any) -> None:
    """Refuse a training without evaluations or checkpoints, or that does not follow the choice."""
    for name in ("eval_strategy", "save_strategy"):
        if _value(getattr(args, name)) == "no":
            raise InputError(
                f'Expected {name}="steps" or "epoch", but got "no": the rule chooses among '
                "checkpoints that are evaluated and saved. Set eval_strategy and save_strategy to "
                "the same; for metrics alone use reliability_metrics().",
                code="unsupported",
            )
    check_callbacks(args, state)
    if state.is_hyper_param_search:
        raise InputError(
            "Expected a single training, but got hyperparameter_search, which saves each trial in "
            "a folder that callbacks are not told: choose when you train with what it found.",
            code="unsupported",
        )
    _check_schedule(args, type(getattr(lr_scheduler, "scheduler", lr_scheduler)).__name__)


def check_callbacks(args: Any, state: Any) -> None:
    """Refuse early stopping by the choice; the state of such callbacks is in ``state``."""
    if is_plain(args):
        return
    for name, saved in (state.stateful_callbacks or {}).items():
        entries = saved if isinstance(saved, list) else [saved]
        if any("early_stopping_patience" in entry.get("args", {}) for entry in entries):
            raise InputError(
                f'Expected no {name}: "{METRIC}" is a choice among checkpoints, not a number that '
                "improves, so it would stop at once. Write ReliabilityCallback(patience=N), which "
                "stops when the chosen checkpoint is followed by N evaluations, or set "
                'metric_for_best_model="loss": it decides when to stop, and the rule chooses.',
                code="unsupported",
            )


def check_model(model: Any) -> None:
    """Refuse language models: their logits are for the next token, so labels are shifted."""
    name = type(model).__name__
    if name.endswith(_OTHER_TASKS):
        raise InputError(
            f"Expected a model that classifies, but got {name}, whose labels are its inputs "
            "shifted by one: say which belong together, with outputs=lambda prediction: "
            "(logits, labels).",
            code="unsupported",
        )


def _check_schedule(args: Any, name: str) -> None:
    """Refuse a schedule that waits for the metric to improve."""
    if args.metric_for_best_model is not None and not is_plain(args) and name in _PLATEAU:
        raise InputError(
            f"Expected a learning rate that follows a schedule, but got {name}, which would take "
            f'it to zero: "{METRIC}" is a choice among checkpoints, not a number that falls. Use '
            "another lr_scheduler_type, such as linear or cosine.",
            code="unsupported",
        )


def _value(choice: Any) -> str:
    """A setting that may be an enum."""
    return str(getattr(choice, "value", choice))
