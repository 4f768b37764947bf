"""What the name of a log's column says: which set it was measured on, and what it measures.

A name is taken apart into words: ``val/Acc@1`` is *val*, *acc*, *1*. Words for a set decide the
side (validation, training, held out); the words that are left have to spell a metric completely,
so that ``val_acc_top5``, ``val_balanced_accuracy`` and ``interval_access`` are not taken for
accuracy.
"""

from __future__ import annotations

import re
from enum import Enum

from checkwise.readers.logs.trainers import Trainer
from checkwise.records.column_names import TRAINING_WORDS, VALIDATION_WORDS
from checkwise.records.held_out import looks_held_out

# Words that change neither the set nor the metric: Lightning's `val_acc_epoch`, Ultralytics'
# `metrics/…`, `avg_val_loss`.
EMPTY_WORDS = ("epoch", "metrics", "metric", "avg", "average")
PERCENT_WORDS = ("percent", "percentage", "pct")

SPELLINGS: dict[str, tuple[str, ...]] = {
    "accuracy": (
        "acc", "accuracy", "acc 1", "accuracy 1", "top 1", "top 1 acc", "top 1 accuracy",
        "acc top 1", "accuracy top 1", "prec 1", "accuracy score", "categorical accuracy",
        "sparse categorical accuracy", "binary accuracy",
    ),
    "nll": (
        "nll", "nll loss", "neg log likelihood", "negative log likelihood", "ce", "ce loss",
        "loss ce", "cross entropy", "cross entropy loss", "crossentropy", "crossentropy loss",
        "xent", "xent loss", "log loss", "logloss",
    ),
    # Cross-entropy in most classifiers, but a log does not say so.
    "loss": ("loss",),
    "error_rate": ("error rate",),
}  # fmt: skip
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
    """Which set a column was measured on.

    Example:
        >>> from checkwise.readers.logs.trainers import FASTAI, KERAS
        >>> side("val_acc", KERAS).name, side("accuracy", KERAS).name, side("accuracy", FASTAI).name
        ('VALIDATION', 'UNKNOWN', 'VALIDATION')
    """
    if looks_held_out(column) or "test" in tokens(column):
        return Side.HELD_OUT
    if column in trainer.validation:
        return Side.VALIDATION
    in_column = set(tokens(column))
    validation = not in_column.isdisjoint(VALIDATION_WORDS)
    training = not in_column.isdisjoint(TRAINING_WORDS)
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
    return " ".join(token for token in tokens(column) if token not in dropped)


def spells(column: str, metric: str) -> bool:
    """Whether a column measures a metric, by its name and nothing beside it.

    Example:
        >>> [c for c in ("val_acc", "val_top5", "val_acc_step", "interval_access", "eval_macro_f1")
        ...  if spells(c, "accuracy") or spells(c, "macro_f1")]
        ['val_acc', 'eval_macro_f1']
    """
    return measure(column) in SPELLINGS.get(metric, (measure(metric),))


def says_percent(column: str) -> bool:
    """Whether a name says that its values are in percent."""
    return "%" in column or not set(PERCENT_WORDS).isdisjoint(tokens(column))
