"""Settings of a Trainer that would undo the choice: refused with the reason and the way out."""

from __future__ import annotations

from typing import Any, Final

from checkwise.errors import InputError

METRIC: Final = "checkwise"
_PLATEAU: Final = ("reduce_lr_on_plateau", "greedy", "ReduceLROnPlateau", "GreedyLR")
# Whose logits and labels are not one classification each, although the shapes may fit.
_OTHER_TASKS: Final = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")


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
