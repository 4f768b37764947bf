"""What the name of a log's column says: which set it was measured on, and what it measures.

A name is taken apart into words: ``val/Acc@1`` is *val*, *acc*, *1*. Words for a set decide the
side (validation, training, held out); the words that are left have to spell a metric completely,
so that ``val_acc_top5``, ``val_balanced_accuracy`` and ``interval_access`` are not taken for
accuracy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from checkwise.metrics import NAMES
from checkwise.readers.log import OTHER, Trainer
from checkwise.records import (
    TRAINING_WORDS,
    VALIDATION_WORDS,
    headline,
    looks_held_out,
)

# Words that change neither the set nor the metric: Lightning's `val_acc_epoch`, Ultralytics'
# `metrics/…`, `avg_val_loss`.
EMPTY_WORDS = ("epoch", "metrics", "metric", "avg", "average", "history", "list", "values")
PERCENT_WORDS = ("percent", "percentage", "pct")

SPELLINGS: dict[str, tuple[str, ...]] = {
    "accuracy": (
        "acc", "accuracy", "accs", "accuracies", "acc 1", "accuracy 1", "top 1", "top 1 acc",
        "top 1 accuracy",
        "acc top 1", "accuracy top 1", "prec 1", "accuracy score", "categorical accuracy",
        "sparse categorical accuracy", "binary accuracy",
    ),
    "nll": (
        "nll", "nll loss", "neg log likelihood", "negative log likelihood", "ce", "ce loss",
        "loss ce", "cross entropy", "cross entropy loss", "crossentropy", "crossentropy loss",
        "xent", "xent loss", "log loss", "logloss", "multi logloss", "mlogloss", "binary logloss",
    ),
    # Cross-entropy in most classifiers, but a log does not say so.
    "loss": ("loss", "losses"),
    "error_rate": (
        "error rate", "multi error", "merror", "binary error", "top 1 err", "top 1 error",
        "top 1 error rate", "err top 1", "error top 1", "err 1", "error 1", "classification error",
        "classification error rate", "misclassification rate",
    ),
}  # fmt: skip
# A regression may have these as well: they are asked about.
UNCLEAR_ERRORS = ("error", "errors", "err", "1 acc", "1 accuracy")
ACCURACY_WORDS = ("acc", "accuracy")
# Names of the columns that say where in the training a row belongs; the first that is there.
STEP_COLUMNS = (
    "checkwise step", "global step", "trainer global step", "train global step", "step", "steps",
    "iteration", "iterations", "iter", "training iteration", "update", "updates",
)  # fmt: skip
EPOCH_COLUMNS = ("epoch", "epochs", "train epoch")

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_]+")


class Side(Enum):
    """The set that a column was measured on, by its name."""

    VALIDATION = "validation"
    TRAINING = "training"
    HELD_OUT = "held out"
    UNKNOWN = "unknown"


def tokens(name: str) -> list[str]:
    """The words and numbers of a name in small letters.

    Example:
        >>> tokens("val/Acc@1"), tokens("evalTop1"), tokens("valloss")
        (['val', 'acc', '1'], ['eval', 'top', '1'], ['val', 'loss'])
    """
    split: list[str] = []
    for token in (word.lower() for word in _WORD.findall(name)):
        split += _parted(token)
    return split


def _parted(token: str) -> list[str]:
    """``valloss`` as ``val``, ``loss``."""
    for word in (*VALIDATION_WORDS, *TRAINING_WORDS, "test"):
        rest = token.removeprefix(word)
        if rest != token and rest in ("acc", "accuracy", "loss", "nll", "ce"):
            return [word, rest]
    return [token]


def side(column: str, trainer: Trainer) -> Side:
    """Which set a column was measured on; a word for training stands against what a trainer means.

    Example:
        >>> from checkwise.readers.log import FASTAI, KERAS
        >>> side("val_acc", KERAS).name, side("accuracy", KERAS).name, side("accuracy", FASTAI).name
        ('VALIDATION', 'UNKNOWN', 'VALIDATION')
    """
    if looks_held_out(column) or "test" in tokens(column):
        return Side.HELD_OUT
    in_column = set(tokens(column))
    validation = not in_column.isdisjoint(VALIDATION_WORDS)
    training = not in_column.isdisjoint(TRAINING_WORDS)
    if column in trainer.validation and not training:
        return Side.VALIDATION
    if validation == training:
        return Side.UNKNOWN
    return Side.VALIDATION if validation else Side.TRAINING


def measure(column: str) -> str:
    """What a column measures: its words without those for a set, joined by spaces.

    Example:
        >>> measure("eval/macro_f1"), measure("val_loss_epoch"), measure("val_acc_step")
        ('macro f 1', 'loss', 'acc step')
    """
    dropped = {*VALIDATION_WORDS, *TRAINING_WORDS, *EMPTY_WORDS, *PERCENT_WORDS}
    return " ".join(token for token in tokens(column.removesuffix("(B)")) if token not in dropped)


def spells(column: str, metric: str) -> bool:
    """Whether a column measures a metric, by its name and nothing beside it."""
    return measure(column) in SPELLINGS.get(metric, (measure(metric),))


def says_percent(column: str) -> bool:
    """Whether a name says that its values are in percent."""
    return "%" in column or not set(PERCENT_WORDS).isdisjoint(tokens(column))


_DATALOADER = re.compile(r"(?P<name>.+)/dataloader_idx_(?P<set>\d+)")
COUNT = "n"
_OWN = re.compile(rf"checkwise/(?P<set>.+)/(?P<name>{'|'.join((*NAMES, COUNT))})")
PREFIX = "eval_"  # of transformers, "eval/" in TensorBoard
_RUNTIME = re.compile(r"(?P<prefix>eval[_/])(?P<set>.+)_runtime")
# Columns about the evaluation itself; they measure no model.
TIMES = re.compile(r"eval[_/](?:.+_)?(?:runtime|samples_per_second|steps_per_second)")


@dataclass(frozen=True)
class Named:
    """A column, the name that its rule looks at, and the evaluation set that it belongs to."""

    column: str
    name: str
    domain: str | None
    side: Side
    is_own: bool = False


def has_validation(header: Sequence[str], trainer: Trainer) -> bool:
    """Whether some column is a validation accuracy or loss, of a known trainer any metric."""
    names = [one.name for one in named_columns(header, trainer) if one.side is Side.VALIDATION]
    if trainer is not OTHER:
        return bool(names or trainer.validation)
    return any(spells(name, metric) for name in names for metric in SPELLINGS) or bool(
        headline(names)
    )


def named_columns(
    header: Iterable[str], trainer: Trainer, called: Mapping[str, tuple[str, str]] | None = None
) -> list[Named]:
    """The columns that measure a model, by what they are called after."""
    sets = {match["set"]: match["prefix"] for c in header if (match := _RUNTIME.fullmatch(c))}
    of_test = trainer.validation if _tested_only(header) else ()
    named = []
    for column in header:
        if TIMES.fullmatch(column):
            continue
        if called and column in called:
            inside, metric = called[column]
            measured = _side(f"val_{metric}", inside, trainer)
            named.append(Named(column, f"val_{metric}", inside or None, measured))
            continue
        if own := _OWN.fullmatch(column):
            validation = _side(f"val_{own['name']}", own["set"], trainer)
            named.append(Named(column, f"val_{own['name']}", own["set"], validation, is_own=True))
            continue
        name, domain = column, None
        if match := _DATALOADER.fullmatch(column):
            name, domain = match["name"], match["set"]
        for end in (at for at in range(len(column) - 1, 0, -1) if column[at] == "_" and sets):
            prefix, of_set = column[: len(PREFIX)], column[len(PREFIX) : end]
            if sets.get(of_set) == prefix:
                name, domain = prefix + column[end + 1 :], of_set
                break
        measured = Side.HELD_OUT if column in of_test else _side(name, domain, trainer)
        named.append(Named(column, name, domain, measured))
    return named


def _tested_only(header: Iterable[str]) -> bool:
    """Whether a log has a loss on test and none that could be of validation."""
    sides = {side(column, OTHER) for column in header if tokens(column)[-1:] == ["loss"]}
    return Side.HELD_OUT in sides and sides <= {Side.HELD_OUT, Side.TRAINING}


def _side(name: str, domain: str | None, trainer: Trainer) -> Side:
    """Which set a column was measured on; an evaluation of the training set is training."""
    return Side.TRAINING if is_training_set(domain or "") else side(name, trainer)


def is_training_set(name: str) -> bool:
    """Whether a set of examples is called after training."""
    return not {*TRAINING_WORDS, "learn"}.isdisjoint(tokens(name))
