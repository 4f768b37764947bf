"""Which of two values of a score is better: by the metric, by what the caller says, by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

from checkwise.errors import InputError
from checkwise.metrics import METRICS, Direction
from checkwise.records import words
from checkwise.words import shown

Directions: TypeAlias = Mapping[str, Direction]

HIGHER = frozenset((
    "accuracy", "accuracies", "acc", "precision", "prec", "recall", "sensitivity", "specificity",
    "tpr", "tnr",
    "f1", "f2", "f1score", "fscore", "fbeta", "fmeasure", "auc", "auroc", "rocauc", "roc",
    "auprc", "prauc", "ap", "map", "iou", "miou", "jaccard", "dice", "mcc", "matthews", "kappa",
    "qwk", "r2", "rsquared", "pearson", "pearsonr", "spearman", "spearmanr", "correlation",
    "ndcg", "mrr", "hit", "hits", "bleu", "sacrebleu", "rouge", "meteor", "chrf", "cider",
    "bertscore", "psnr", "ssim", "likelihood", "reward", "success", "throughput", "fps",
))  # fmt: skip
LOWER = frozenset((
    "loss", "nll", "ce", "xent", "crossentropy", "logloss", "error", "errors", "err",
    "misclassification", "perplexity", "ppl", "bpb", "bpc", "wer", "cer", "eer", "ter", "mer",
    "mae", "mse", "rmse", "mape", "smape", "ece", "cwece", "mce", "brier", "fid", "kid",
    "lpips", "kl", "divergence", "distance", "regret", "cost", "penalty", "fpr", "fnr", "latency",
    "time", "runtime", "seconds", "ms", "duration", "memory",
))  # fmt: skip
# They decide where no other word does: top5 is an accuracy, top5_error is not.
HIGHER_ALONE = frozenset(("top", "topk"))
# With one of these a name is no plain score: accuracy_std, loss_scale, neg_mean_squared_error.
UNCLEAR = frozenset((
    "drop", "gap", "decrease", "increase", "change", "delta", "diff", "difference", "degradation",
    "std", "stdev", "stderr", "sem", "var", "variance", "ci", "scale", "weight", "coef", "count",
    "neg", "negative", "minus", "inverse", "inv",
))  # fmt: skip
# Words that mean something else together than alone.
PHRASES: Mapping[str, Direction] = {
    "negative log likelihood": "lower",
    "cross entropy": "lower",
    "false positive rate": "lower",
    "false negative rate": "lower",
    "true positive rate": "higher",
    "true negative rate": "higher",
    "exact match": "higher",
    "per second": "higher",
    "per sec": "higher",
}
# As `records.words`, with the digits that belong to a word: evalF1, top5.
_WITH_DIGITS = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*")


def known_direction(name: str, directions: Directions | None = None) -> Direction | None:
    """The direction of a score as far as it is known; ``directions`` is what the caller says.

    Example:
        >>> [known_direction(name) for name in ("val/macro_f1", "eval_loss", "top5", "my_score")]
        ['higher', 'lower', 'higher', None]
        >>> known_direction("accuracy_loss") is None
        True
    """
    if name in METRICS:
        return METRICS[name].direction
    if directions and name in directions:
        return directions[name]
    return _by_words(name)


def direction_of(name: str, directions: Directions | None = None) -> Direction:
    """The direction of a score; one that is not known is asked for."""
    direction = known_direction(name, directions)
    if direction is None:
        raise InputError(
            f"Expected to know whether a higher or a lower {name} is better, but its name does not "
            f"say: add --direction {name}=higher or {name}=lower (in Python "
            f'directions={{"{name}": "higher"}}).',
            code="ambiguous",
        )
    return direction


def check_directions(directions: object) -> dict[str, Direction]:
    """Directions by the name of a score, refused where they are none or contradict a metric."""
    if directions is None:
        return {}
    if not isinstance(directions, Mapping):
        raise InputError(
            'Expected directions by the name of the score, as {"reward": "higher"}, but got '
            f"{shown(directions)}."
        )
    for name, direction in directions.items():
        wanted = METRICS[name].direction if name in METRICS else "higher or lower"
        if direction not in ("higher", "lower") or (name in METRICS and direction != wanted):
            raise InputError(
                f"Expected {wanted} as the direction of {name}, but got {shown(direction)}."
            )
    return dict(directions)


def _by_words(name: str) -> Direction | None:
    in_name = words(name)
    with_digits = {part.lower() for part in _WITH_DIGITS.findall(name)}
    run_together = set(re.findall(r"[a-z0-9]+", name.lower()))
    spellings = {*in_name, *with_digits, *run_together}
    spellings |= {part.rstrip("0123456789") for part in run_together}
    said: set[Direction] = set()
    for phrase, direction in PHRASES.items():
        if f" {phrase} " in f" {' '.join(in_name)} ":
            said.add(direction)
            spellings -= set(phrase.split())
    if spellings & UNCLEAR:
        return None
    if spellings & HIGHER:
        said.add("higher")
    if spellings & LOWER:
        said.add("lower")
    if not said and spellings & HIGHER_ALONE:
        said.add("higher")
    return said.pop() if len(said) == 1 else None
