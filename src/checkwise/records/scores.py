"""The score that people judge a model by where there is no accuracy, found by its name.

A family is one question asked of a model; of its scores the first that is there speaks for it, as
mAP50-95 does before mAP50. Scores of two families cannot speak for each other: the user is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from checkwise.records.column_names import TRAINING_WORDS, VALIDATION_WORDS

_WORDS: Final = (*VALIDATION_WORDS, "metrics", "metric", "avg")
_BEFORE: Final = re.compile(
    rf"^(?:(?:{'|'.join(_WORDS)})(?:[/_ .:-]+|(?=(?-i:[A-Z]))))+", re.IGNORECASE
)
# Read from the end: a search for where these words begin would take the square of their number.
_BEHIND: Final = re.compile(
    rf"(?:(?:{'|'.join(word[::-1] for word in (*_WORDS, 'epoch'))})[/_ .:-])+", re.IGNORECASE
)
_OVER: Final = "(?:(?:macro|micro|weighted|samples|mean) )"
_OF: Final = "(?:multiclass|binary|multilabel)? ?"  # torchmetrics' classes
_BOXES: Final = "(?:coco )?(?:(?:bbox|box|segm|mask|keypoints?) )?"
_MAIN: Final = {
    "balanced accuracy": ("(?:balanced|bal) acc(?:uracy)?(?: score)?", "balancedaccuracy"),
    "f1": (
        f"{_OF}(?:overall |total)?f1(?: ?score)?s?|f ?score|f ?measure",
        f"{_OVER}?(?:overall |binary |total)?f1(?: ?score)?(?: {_OVER[3:-2]})?(?: .*=.*)?",
    ),
    "auc": (f"{_OF}(?:(?:roc )?auc(?: roc)?(?: score)?|au ?roc|rocauc)s?",
            f"{_OVER}?(?:roc )?au(?:c|roc)(?: .*)?"),
    "average precision": ("average precision(?: score)?|auprc|au ?pr|pr ?auc|auc ?pr|aucpr",),
    "map": (f"{_BOXES}m?ap(?:(?: ?50| 0 5| 5)(?: 0)? 95(?: [mpo])?)?",
            f"{_BOXES}m?ap ?(?:50|0 5|5)(?: [mpo])?"),
    "iou": (f"{_OF}(?:mean )?m?(?:iou|jaccard)s?(?: ?index| score| coef)?",),
    "dice": ("(?:mean )?m?(?:dice|dsc)s?(?: ?score| coef(?:ficient)?)?s?",),
    "mcc": ("mcc|matthews(?: corr(?:coef|elation))?(?: coefficient)?",),
    "kappa": ("(?:cohens? |quadratic )?(?:weighted )?w?kappa(?: score)?|qwk",),
    "token accuracy": ("(?:mean )?token acc(?:uracy)?",),
    "reward": ("rewards? accurac(?:y|ies)",),
    "error of words": ("wer|word error rate", "cer|char(?:acter)? error rate"),
    "equal error": ("eer|equal error rate",),
    "translation": ("(?:sacre)?bleu(?: score)?",),
    "summary": ("rouge ?l", "rouge ?l ?sum", "rouge ?1"),
    "exact match": ("exact(?: match)?",),
    "correlation": ("spearmanr?(?: correlation)?", "pearsonr?(?: correlation)?"),
    "regression": (
        "r2(?: score)?|r squared|rsquared", "rmse|root mean squared error",
        "mse|mean squared error|l2", "mae|mean absolute error|l1", "mape|smape|rmsle|msle",
    ),
}  # fmt: skip
# Half an answer each: they speak only where no other does.
_LESSER: Final = {
    "half": ("precision|recall|sensitivity|specificity|ar",),
    "perplexity": ("perplexity|ppl",),
}
# Whose loss is no cross-entropy, or no plain one.
_OTHER_LOSS: Final = ("map", "iou", "dice", "regression", "correlation", "reward")


def short_name(column: str) -> str:
    """A score without the words for the set that it was measured on.

    Example:
        >>> [short_name(name) for name in ("eval_macro_f1", "metrics/mAP50-95(B)", "val/dice")]
        ['macro_f1', 'mAP50-95', 'dice']
    """
    bare = _BEFORE.sub("", column)
    if words := _BEHIND.match(bare[::-1]):
        bare = bare[: -words.end()]
    bare = bare.removesuffix("(B)")
    return bare.strip() or column


def headline(names: Iterable[str]) -> list[str]:
    """The names of the scores that say how good a model is; several where one has to be named.

    Example:
        >>> headline(["metrics/precision(B)", "metrics/mAP50(B)", "metrics/mAP50-95(B)"])
        ['metrics/mAP50-95(B)']
        >>> headline(["val_f1", "val_auroc", "val_precision"]), headline(["val_loss"])
        (['val_f1', 'val_auroc'], [])
    """
    names = list(names)
    for families in (_MAIN, _LESSER):
        found = [one for levels in families.values() for one in _first(names, levels)]
        if found:
            return found
    return []


def has_other_loss(name: str) -> bool:
    """Whether the loss beside such a score is no negative log-likelihood."""
    return any(_first([name], _MAIN[family]) for family in _OTHER_LOSS)


def sums_losses(name: str) -> bool:
    """Whether the loss beside such a score is logged in parts: detection."""
    return bool(_first([name], _MAIN["map"]))


def _first(names: list[str], levels: tuple[str, ...]) -> list[str]:
    for level in levels:
        found = [name for name in names if re.fullmatch(level, _plain(name))]
        if found:
            return found
    return []


def _plain(name: str) -> str:
    said = re.findall(r"[a-z0-9=]+", short_name(name).lower())
    return " ".join(word for word in said if word not in (*_WORDS, *TRAINING_WORDS))
