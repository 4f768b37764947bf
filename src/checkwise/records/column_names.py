"""Which column of a table is read under which name, and which columns are ignored.

Columns are read under checkwise's own names, unless the caller maps a name to another column
(``columns={"accuracy": "val_accuracy"}``, ``--column accuracy=val_accuracy``). Where a table has
both ``accuracy`` and ``val_accuracy``, the first is usually of training, so the caller has to say
which one is meant.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from checkwise.errors import InputError
from checkwise.metrics import METRICS
from checkwise.records.held_out import is_held_out_word, looks_held_out, words
from checkwise.words import shortened

VALIDATION_WORDS = ("val", "valid", "validation", "eval", "evaluation", "dev")
TRAINING_WORDS = ("train", "training", "trn", "tr")
# Other words for a metric in the columns of trainers' logs.
ALSO_CALLED = {
    "accuracy": ("acc", "top"),
    "nll": ("loss", "ce", "xent", "crossentropy", "logloss"),
}
# Words of scores of which less is better: 1 minus an accuracy, a regression's, a loss.
ERRORS = re.compile(
    r"(?:m|val|valid|eval|dev|test|top|multi|binary)?err(?:or)?s?|[wce]er"
    r"|misclass(?:ifi(?:cations?|ed))?|mistakes?|wrong|inaccura(?:cy|te)|fail(?:ures?|ed)?"
)
REGRESSION_WORDS = (
    "mse", "rmse", "mae", "mape", "smape", "msle", "rmsle", "huber", "squared", "absolute",
    "residual", "residuals", "reconstruction", "r2", "rsquared",
)  # fmt: skip
# Of losses that are no cross-entropy.
OTHER_LOSSES = (
    "focal", "hinge", "dice", "tversky", "lovasz", "jaccard", "iou", "triplet", "contrastive",
    "margin", "kl", "kld", "kldiv", "elbo", "adversarial", "wasserstein", "center", "arcface",
    "perceptual", "smooth", "smoothed", "smoothing", "l1", "l2", "regularization",
    "regularisation", "penalty", "ctc", "ranking", "quantile", "pinball", "poisson", "logcosh",
    "cosine", "cosface", "infonce", "simclr", "vae", "gan", "recon", "distill", "distillation",
)  # fmt: skip
LOSS_WORDS = ("nll", "ce", "xent", "entropy", "crossentropy", "likelihood", "brier")
NO_NLL = ("brier", "perplexity", "ppl")
ONE_MINUS = re.compile(r"(?<![a-z0-9])1\s*[-−–]\s*acc|one[ _-]?minus", re.IGNORECASE)
# Columns that say what is held out: one that is spelt differently must not be ignored.
SORTING = ("domain", "role", "held_out")
DOMAIN_WORDS = ("domain", "domains", "env", "envs", "environment", "environments")
# Words beside `target` or `test` in the name of a column that says which rows or domains are held
# out; `test_accuracy` and `target_nll` are metrics.
NAMING_WORDS = (*DOMAIN_WORDS, "is", "name", "names", "id", "ids", "idx", "index", "set", "flag")
# Last words of columns whose cells name sets: `split` = `photo_test`.
PART_WORDS = {
    "split", "splits", "set", "subset", "part", "partition", "kind", "type", "role", "roles",
    "phase", "mode", "stage", "fold", "dataset", "datasets", "loader", "dataloader",
}  # fmt: skip


def resolve(
    header: Sequence[str], known: Iterable[str], columns: Mapping[str, str], where: str
) -> dict[str, str]:
    """Name → column, for those of the known names that the table has."""
    known = list(dict.fromkeys(known))
    for name, column in columns.items():
        if name not in known:
            raise InputError(
                f"Expected --column NAME=COLUMN with a name among {', '.join(known)}, but got "
                f"{name!r}: check the name.",
                code="unknown",
            )
        if column not in header:
            raise InputError(
                f"Expected a column {column!r} for {name}, but {where} has {shortened(header)}: "
                "check the name.",
                code="missing",
            )
    for name, column in columns.items():
        check_told(name, column, where)
        if name == "accuracy" and says(column) == "error rate":
            raise InputError(
                f"Expected accuracies, but by its name {column!r} in {where} is an error rate: "
                "write 1 minus its values in a column `accuracy`."
            )
        if name == "held_out" and not {"is", "flag"}.isdisjoint(words(column)):
            raise InputError(
                f"Expected the names of held-out domains, but by its name {column!r} in {where} "
                "marks rows: leave out the rows that it marks, and the column.",
                code="held-out",
            )
        if column in SORTING and name != column:
            raise InputError(
                f"Expected the column {column!r} to say what is held out, but --column reads it as "
                f"{name} in {where}: copy it under another name, and map that.",
                code="held-out",
            )
    taken = set(columns.values())
    reading = {
        name: columns.get(name, name)
        for name in known
        if name in columns or (name in header and name not in taken)
    }
    counts = Counter(header)
    for column in reading.values():
        if counts[column] > 1:
            raise InputError(
                f"Column {column!r} appears twice in {where}: keep one of them.", code="ambiguous"
            )
    return reading


_ARTICLES = {"accuracy": "an", "error rate": "an", "other loss": "some"}
Said = Literal["accuracy", "error rate", "regression", "other loss", "loss", ""]


def says(column: str) -> Said:
    """What the name of a column says that it measures; "" where it says nothing of these.

    Example:
        >>> [says(c) for c in ("multi_error", "val_mae", "1-acc", "mlogloss", "top-1-acc", "f1")]
        ['error rate', 'regression', 'error rate', 'loss', 'accuracy', '']
        >>> [says(c) for c in ("val_focal_loss", "val/dice", "val_dice_loss", "val_r2")]
        ['other loss', '', 'other loss', 'regression']
    """
    in_column = _words_of(column)
    if in_column & set(REGRESSION_WORDS):
        return "regression"
    if any(map(ERRORS.fullmatch, in_column)) or ONE_MINUS.search(re.sub(r"top[-_ ]?1", "", column)):
        return "error rate"
    if in_column & set(LOSS_WORDS) or any(word.endswith("loss") for word in in_column):
        return "other loss" if in_column & set(OTHER_LOSSES) else "loss"
    return "accuracy" if in_column & {"acc", "accuracy"} else ""


def _words_of(column: str) -> set[str]:
    return {*words(column), *re.findall(r"[a-z]+[0-9]*", column.lower())}


_RULED_OUT: dict[str, tuple[Said, ...]] = {
    "accuracy": ("regression", "loss", "other loss"),
    "error_rate": ("accuracy", "regression", "loss", "other loss"),
    "nll": ("regression", "error rate", "accuracy", "other loss"),
}


def may_be(column: str, metric: str) -> bool:
    """Whether the name of a column leaves open that it is a metric; an error rate is no accuracy.

    Example:
        >>> may_be("top5_error", "accuracy"), may_be("score", "accuracy"), may_be("val_mse", "nll")
        (False, True, False)
    """
    ruled_out = _RULED_OUT.get(metric, ())
    return _says_for(column, metric) not in (*ruled_out, *["error rate"] * (metric == "accuracy"))


def _says_for(column: str, metric: str) -> Said:
    said = says(column)
    no_nll = metric == "nll" and _words_of(column) & {*OTHER_LOSSES, *NO_NLL}
    return "other loss" if said in ("", "loss") and no_nll else said


def check_told(name: str, column: str, where: str) -> None:
    """Refuse a column for accuracy or NLL whose own name says that it is something else."""
    said = _says_for(column, name)
    if said in _RULED_OUT.get(name, ()):
        raise InputError(
            f"Expected {name} under --column {name}, but by its name {column!r} in {where} is "
            f"{_ARTICLES.get(said, 'a')} {said}: name the column of the {name}, or choose "
            f"by it with --constraint {column} or --objectives {column}."
        )


def check_sorting(
    header: Iterable[str], reading: Mapping[str, str], where: str, *, told: bool
) -> None:
    """Refuse a column that seems to say what is held out, but under a name that is not read.

    ``told`` is whether the caller has said what is held out.
    """
    for column in header:
        if column in reading.values():
            continue
        in_column = words(column)
        meant = next((n for n in SORTING if "".join(in_column) == "".join(words(n))), None)
        other = [word for word in in_column if word not in NAMING_WORDS]
        names_target = (
            looks_held_out(column)
            and looks_held_out(" ".join(other))
            and (all(looks_held_out(word) for word in other) or is_held_out_word(" ".join(other)))
        )
        if meant is None and names_target and not told and not {"role", "held_out"} & set(reading):
            meant = "held_out"
        if meant is not None and meant not in reading:
            marks = not {"is", "flag"}.isdisjoint(in_column)
            do = f"rename it, or add --column {meant}={column}"
            raise InputError(
                f"Expected the column `{meant}` under that name, but {where} has {column!r}: "
                f"{'leave out the rows that it marks, and the column' if marks else do}.",
                code="held-out",
            )


def check_rivals(
    header: Iterable[str], reading: Mapping[str, str], columns: Mapping[str, str], where: str
) -> None:
    """Refuse `accuracy` beside `val_accuracy`, until the caller says which one to read."""
    others = [column for column in header if column not in reading.values()]
    for name, column in reading.items():
        if name not in METRICS or name in columns:
            continue
        rival = next((other for other in others if is_validation_of(other, name)), None)
        if rival is not None:
            raise InputError(
                f"Expected one column for {name}, but {where} has {column!r} and {rival!r}, and "
                f"the first may be of training: say which one is validation, with --column "
                f"{name}={rival} or --column {name}={column} (in Python columns={{…}}).",
                code="ambiguous",
            )


def is_validation_of(column: str, metric: str) -> bool:
    """Whether a column looks like the validation values of a metric.

    Example:
        >>> [c for c in ("val_accuracy", "valid/acc", "evalTop1", "val_loss", "train_accuracy")
        ...  if is_validation_of(c, "accuracy")]
        ['val_accuracy', 'valid/acc', 'evalTop1']
    """
    in_column = set(words(column))
    if not in_column.isdisjoint(TRAINING_WORDS):
        return False
    if says(column) in ("error rate", "regression", "other loss"):
        return False
    spellings = [words(metric), *([other] for other in ALSO_CALLED.get(metric, ()))]
    for spelling in spellings:
        joined = {f"{word}{''.join(spelling)}" for word in VALIDATION_WORDS}
        both = in_column.issuperset(spelling) and in_column.intersection(VALIDATION_WORDS)
        if joined & in_column or both:
            return True
    return False


def missing(names: Iterable[str], header: Sequence[str]) -> str:
    """What to do about a missing column: map one that looks like it, or name the columns."""
    for name in names:
        likely = [c for c in header if is_validation_of(c, name)] if name in METRICS else []
        likely += [c for c in header if name == "step" and words(c) in (["epoch"], ["iteration"])]
        if likely:
            return f"map one of yours, as in --column {name}={likely[0]}"
    return "name the columns in the first line, or in each JSON record"


def notes(header: Iterable[str], reading: Mapping[str, str]) -> tuple[str, ...]:
    """Notes on the columns that are read under another name, and on those that are not read."""
    mapped = [f"{name} from {column}" for name, column in reading.items() if name != column]
    others = [column for column in header if column and column not in reading.values()]
    lines = [f"read by --column: {shortened(mapped)}"] if mapped else []
    losses = [column for column in others if is_validation_of(column, "nll")]
    if losses and "nll" not in reading:
        lines.append(f"if {losses[0]:.40} is the plain cross-entropy, add --column nll={losses[0]}")
    return (*lines, *([f"not read: {shortened(others)}"] if others else []))
