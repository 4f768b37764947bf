"""Settings of a Trainer that would undo the choice: refused with the reason and the way out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from checkwise.errors import InputError
from checkwise.integrations.live import LiveSelector
from checkwise.integrations.transformers.folders import checkpoints
from checkwise.words import counted

METRIC: Final = "checkwise"
_PLATEAU: Final = ("reduce_lr_on_plateau", "greedy")
# Whose logits and labels are not one classification each, although the shapes may fit.
_OTHER_TASKS: Final = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")


def check_arguments(args: Any) -> None:
    """Refuse ``TrainingArguments`` under which another checkpoint than the choice would win."""
    metric = args.metric_for_best_model
    if metric not in (None, METRIC, f"eval_{METRIC}"):
        raise InputError(
            f'Expected metric_for_best_model="{METRIC}", but got {metric!r}: the Trainer would '
            "overrule the choice of the rule. The default of load_best_model_at_end is 'loss', so "
            f'set metric_for_best_model="{METRIC}".',
            code="unsupported",
        )
    if args.save_total_limit is not None:
        raise InputError(
            f"Expected save_total_limit=None, but got {args.save_total_limit}: the Trainer would "
            "delete the oldest checkpoints, among them some that may still be chosen. Leave it "
            "out; the callback deletes what can no longer be chosen.",
            code="unsupported",
        )
    if _value(args.save_strategy) == "best":
        raise InputError(
            'Expected save_strategy="steps" or "epoch", but got "best": the choice can return to '
            "an earlier checkpoint, so each has to be saved when it is evaluated. Set "
            "save_strategy to the same as eval_strategy; checkpoints that can no longer be chosen "
            "are deleted.",
            code="unsupported",
        )
    if metric is not None and _value(args.lr_scheduler_type) in _PLATEAU:
        _refuse_plateau(_value(args.lr_scheduler_type))


def check_strategies(args: Any) -> None:
    """Refuse a training without evaluations or without checkpoints."""
    for name in ("eval_strategy", "save_strategy"):
        if _value(getattr(args, name)) == "no":
            raise InputError(
                f'Expected {name}="steps" or "epoch", but got "no": the rule chooses among '
                "checkpoints that are evaluated and saved. Set eval_strategy and save_strategy to "
                "the same; for metrics alone use reliability_metrics().",
                code="unsupported",
            )


def check_schedule(args: Any, lr_scheduler: Any) -> None:
    """Refuse a scheduler object that waits for the metric to improve."""
    name = type(getattr(lr_scheduler, "scheduler", lr_scheduler)).__name__
    if args.metric_for_best_model is not None and name in ("ReduceLROnPlateau", "GreedyLR"):
        _refuse_plateau(name)


def _refuse_plateau(name: str) -> None:
    raise InputError(
        f"Expected a learning rate that follows a schedule, but got {name}: it reads "
        f'metric_for_best_model, and "{METRIC}" is a choice among checkpoints, not a number that '
        "falls. The rate would go to zero. Use another lr_scheduler_type, such as linear "
        "or cosine.",
        code="unsupported",
    )


def check_callbacks(state: Any) -> None:
    """Refuse early stopping by the metric; the state of such callbacks is in ``state``."""
    for name, saved in (state.stateful_callbacks or {}).items():
        entries = saved if isinstance(saved, list) else [saved]
        if any("early_stopping_patience" in entry.get("args", {}) for entry in entries):
            raise InputError(
                f"Expected no {name}: it waits for metric_for_best_model to improve, and "
                f'"{METRIC}" is a choice among checkpoints, not a number that improves. It would '
                "stop at the first evaluations. Remove it and write "
                "ReliabilityCallback(patience=N): training stops when the chosen checkpoint is "
                "followed by N evaluations.",
                code="unsupported",
            )


def check_model(model: Any) -> None:
    """Refuse language models: their logits are for the next token, so labels are shifted."""
    name = type(model).__name__
    if name.endswith(_OTHER_TASKS):
        raise InputError(
            f"Expected a model that classifies, but got {name}: its labels are the inputs, shifted "
            "by one. Say which logits and labels belong together, with outputs=lambda prediction: "
            "(logits, labels).",
            code="unsupported",
        )


def check_search(state: Any) -> None:
    """Refuse a hyperparameter search, whose folders a callback is not told."""
    if state.is_hyper_param_search:
        raise InputError(
            "Expected a single training, but got hyperparameter_search: it saves each trial in a "
            "folder that callbacks are not told. Train with the found hyperparameters, and choose "
            "then.",
            code="unsupported",
        )


def check_new(journal: Path, live: LiveSelector, output_dir: str) -> None:
    """Refuse records of another training, where one starts at its first step.

    Records without a checkpoint are those of a process that was killed within its first save, or
    somebody deleted the checkpoints: the training may start again.
    """
    if live.checkpoints or any(step in live.steps for step in checkpoints(output_dir)):
        raise InputError(
            f"Expected an output_dir without records, but {journal} has "
            f"{counted(len(live.steps), 'checkpoint')} of an earlier training: go on from it with "
            "trainer.train(resume_from_checkpoint=True), choose another output_dir, or move "
            f"{output_dir} away. Otherwise checkpoints of two trainings would be mixed.",
            code="exists",
        )


def _value(choice: Any) -> str:
    """A setting that may be an enum."""
    return str(getattr(choice, "value", choice))
