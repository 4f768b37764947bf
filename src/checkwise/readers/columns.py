"""What the name of a log's column says: which set it was measured on, and what it measures.

A name is taken apart into words: ``val/Acc@1`` is *val*, *acc*, *1*. Words for a set decide the
side (validation, training, held out); the words that are left have to spell a metric completely,
so that ``val_acc_top5``, ``val_balanced_accuracy`` and ``interval_access`` are not taken for
accuracy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from checkwise.errors import InputError
from checkwise.metrics import MAIN, NAMES
from checkwise.readers.log import OTHER, ULTRALYTICS, Log, Trainer
from checkwise.readers.request import Request
from checkwise.records import (
    ONLY_DOMAIN,
    TRAINING_WORDS,
    VALIDATION_WORDS,
    check_held_out,
    check_told,
    divide,
    is_validation_of,
    looks_held_out,
    may_be,
    says,
)
from checkwise.words import listed, shortened

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
    """Which set a column was measured on.

    Example:
        >>> from checkwise.readers.log import FASTAI, KERAS
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


AXES = ("step", "epoch")
OTHER_SCORES = (
    "; to choose by other scores, name them in --constraint NAME --delta 1% --objectives NAME"
)
LOG_THEM = "log validation metrics, or evaluate the checkpoints with `checkwise predict`"
OLD_LOSS = "val/loss"
SOFTMAX_TWICE = (
    "before 8.3.39, which logs `time` as well, Ultralytics took the softmax twice, and such a loss "
    "rewards overconfidence"
)
_OF_SET = re.compile(r"(?P<name>.+)\[(?P<set>[^\[\]]+)\]")
_DATALOADER = re.compile(r"(?P<name>.+)/dataloader_idx_(?P<set>\d+)")
COUNT = "n"
_OWN = re.compile(rf"checkwise/(?P<set>.+)/(?P<name>{'|'.join((*NAMES, COUNT))})")
PREFIX = "eval_"  # of transformers, "eval/" in TensorBoard
_RUNTIME = re.compile(r"(?P<prefix>eval[_/])(?P<set>.+)_runtime")
# Columns about the evaluation itself; they measure no model.
_TIMES = re.compile(r"eval[_/](?:.+_)?(?:runtime|samples_per_second|steps_per_second)")


@dataclass(frozen=True)
class Reading:
    """What is read of a log.

    Args:
        columns: metric → validation set → column.
        domains: the validation sets, sorted.
        assumed: whether NLL is a loss that is taken for a cross-entropy.
        inverted: columns of accuracy that are error rates, 1 minus it.
        told: metrics whose columns the caller names.
        beside: validation columns that are not read.
        notes: what to say about the sets.
        counts: validation set → column with the number of its examples.
        speeds: validation set → columns with the seconds of an evaluation and its examples a
            second, as transformers logs them.
    """

    columns: Mapping[str, Mapping[str, str]]
    domains: tuple[str, ...]
    assumed: bool
    inverted: tuple[str, ...]
    told: tuple[str, ...]
    beside: tuple[str, ...]
    notes: tuple[str, ...]
    counts: Mapping[str, str] = field(default_factory=dict)
    speeds: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Named:
    """A column, the name that its rule looks at, and the evaluation set that it belongs to."""

    column: str
    name: str
    domain: str | None
    side: Side
    is_own: bool = False

    @property
    def validation_set(self) -> str:
        """The name of its validation set."""
        return ONLY_DOMAIN if self.domain is None else self.domain


def read_header(log: Log, request: Request) -> Reading:
    """Decide what is read of a log.

    Raises:
        InputError: nothing can be read as validation, or several columns could be meant.
    """
    where = str(log.path)
    named = _named([c for c in log.header if c not in log.axes.values()], log.trainer)
    told = _told(log, request, where)
    own = [one for one in named if one.is_own and not told]
    ours = own or (named if _of_callback(named) and not told else [])
    wanted = dict.fromkeys(("accuracy", "nll", *told, *request.metrics, *_metrics_of(ours)))
    by_set = _sets(own or named, request)
    candidates = [one for one in own or named if (one.domain is not None) == by_set]
    domains, notes = _domains(candidates, told, request, where, by_set=by_set)
    columns: dict[str, Mapping[str, str]] = {}
    for metric in wanted:
        found = told.get(metric) or _of_metric(metric, candidates, domains, where)
        if found:
            columns[metric] = {domain: found[domain] for domain in domains if domain in found}
    assumed = False
    if _softmax_twice(log):
        is_told = OLD_LOSS in columns.get("nll", {}).values()
        candidates = [one for one in candidates if one.column != OLD_LOSS]
        notes = (*notes, f"{OLD_LOSS} is {'' if is_told else 'not '}read: {SOFTMAX_TWICE}")
    if "accuracy" not in columns:
        rates = columns.get("error_rate") or _of_metric("error_rate", candidates, domains, where)
        columns = {"accuracy": rates, **columns} if rates else columns
    regression = [one for one in named if says(one.column) == "regression"]
    if "accuracy" not in columns and regression:
        if not columns:
            raise _no_classifier(regression[0].column, where)
        candidates = [one for one in candidates if measure(one.name) != "loss"]
    if "nll" not in columns and (losses := _of_metric("loss", candidates, domains, where)):
        columns["nll"], assumed = losses, True
    accuracies = columns.get("accuracy", {}).values()
    told_errors = () if "accuracy" in told else told.get("error_rate", {}).values()
    inverted = tuple(c for c in accuracies if says(c) == "error rate" or c in told_errors)
    if "nll" not in told:
        _check_outputs(candidates, columns.get("accuracy", {}), where)
    absent = [name for name in request.metrics if name not in columns]
    if absent or not columns:
        raise _nothing(absent, log, named, where)
    _check_sets(columns, domains, inverted, where)
    counts = _of_metric(COUNT, own or (candidates if ours else ()), domains, where)
    read = {column for per_set in (*columns.values(), counts) for column in per_set.values()}
    beside = tuple(
        one.column for one in named if one.side is Side.VALIDATION and one.column not in read
    )
    if "accuracy" not in columns:
        notes = (*notes, *_likely_accuracy(beside))
    speeds = _speeds(log.header, columns.get("accuracy", {}))
    return Reading(columns, domains, assumed, inverted, tuple(told), beside, notes, counts, speeds)


def _speeds(header: Sequence[str], accuracy: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Set → how long evaluations took and how fast they were, of the set of each accuracy."""
    found = {}
    for domain, column in accuracy.items():
        before = column[: len(PREFIX)]
        of_set = "" if domain == ONLY_DOMAIN else f"{domain}_"
        pair = (f"{before}{of_set}runtime", f"{before}{of_set}samples_per_second")
        same = column.startswith(before + of_set) and _TIMES.fullmatch(pair[0])
        if same and set(pair) <= set(header):
            found[domain] = pair
    return found


def _softmax_twice(log: Log) -> bool:
    """Whether an Ultralytics before 8.3.39 wrote the loss; YOLOv5, with `lr/0`, did not do it."""
    is_old = log.trainer.name == ULTRALYTICS.name and not {"time", "lr/0"} & set(log.header)
    return is_old and OLD_LOSS in log.header


def _of_callback(named: Iterable[_Named]) -> bool:
    """Whether a Trainer logged for our callback, which has names of its own in no other way."""
    names = {one.name.replace("/", "_") for one in named}
    return names.issuperset(f"{PREFIX}{metric}" for metric in (*MAIN, COUNT))


def _metrics_of(own: Sequence[_Named]) -> list[str]:
    """The metrics that a callback of checkwise logged, in the order of reports."""
    measured = {measure(one.name) for one in own}
    return [name for name in NAMES if measure(name) in measured]


def has_validation(header: Sequence[str], trainer: Trainer) -> bool:
    """Whether some column is a validation accuracy or loss, of a known trainer any metric."""
    names = [one.name for one in _named(header, trainer) if one.side is Side.VALIDATION]
    if trainer is not OTHER:
        return bool(names or trainer.validation)
    return any(spells(name, metric) for name in names for metric in SPELLINGS)


def _named(header: Iterable[str], trainer: Trainer) -> list[_Named]:
    sets = {match["set"]: match["prefix"] for c in header if (match := _RUNTIME.fullmatch(c))}
    of_test = trainer.validation if _tested_only(header) else ()
    named = []
    for column in header:
        if _TIMES.fullmatch(column):
            continue
        if own := _OWN.fullmatch(column):
            validation = _side(f"val_{own['name']}", own["set"], trainer)
            named.append(_Named(column, f"val_{own['name']}", own["set"], validation, is_own=True))
            continue
        name, domain = column, None
        if match := _DATALOADER.fullmatch(column):
            name, domain = match["name"], match["set"]
        for end in (at for at in range(len(column) - 1, 0, -1) if column[at] == "_" and sets):
            prefix = column[: len(PREFIX)]
            if column[len(prefix) : end] in sets and sets[column[len(prefix) : end]] == prefix:
                name, domain = prefix + column[end + 1 :], column[len(prefix) : end]
                break
        measured = Side.HELD_OUT if column in of_test else _side(name, domain, trainer)
        named.append(_Named(column, name, domain, measured))
    return named


def _tested_only(header: Iterable[str]) -> bool:
    """Whether a log has a loss on test and none that could be of validation."""
    sides = {side(column, OTHER) for column in header if tokens(column)[-1:] == ["loss"]}
    return Side.HELD_OUT in sides and sides <= {Side.HELD_OUT, Side.TRAINING}


def _side(name: str, domain: str | None, trainer: Trainer) -> Side:
    """Which set a column was measured on; an evaluation of the training set is training."""
    if domain is not None and not set(TRAINING_WORDS).isdisjoint(tokens(domain)):
        return Side.TRAINING
    return side(name, trainer)


def _told(log: Log, request: Request, where: str) -> dict[str, dict[str, str]]:
    """Metric → set → column, as the caller says."""
    told: dict[str, dict[str, str]] = {}
    for name, column in request.columns.items():
        if name in AXES:
            if log.axes.get(name) != column:
                raise InputError(
                    f"Expected no --column {name}, because {where} ({log.trainer.name}) itself "
                    f"says the {name} of every value: leave it out.",
                    code="unsupported",
                )
            continue
        if column not in log.header:
            raise InputError(
                f"Expected a column {column!r} for {name}, but {where} has "
                f"{shortened(log.header)}: check the name.",
                code="missing",
            )
        match = _OF_SET.fullmatch(name)
        metric, domain = (match["name"], match["set"]) if match else (name, ONLY_DOMAIN)
        check_told(metric, column, where)
        told.setdefault(metric, {})[domain] = column
    named = [name for name in request.columns if name not in AXES]
    if len({_OF_SET.fullmatch(name) is None for name in named}) > 1:
        raise InputError(
            f"Expected --column for one validation set or for several, but got both in {where}: "
            "name the set of each, as in --column 'accuracy[photo]=COLUMN'.",
            code="ambiguous",
        )
    return told


def _sets(named: Sequence[_Named], request: Request) -> bool:
    """Whether several validation sets are read.

    Beside a set without a name, which trainers evaluate while they train, named ones are of
    single evaluations, and are not read.
    """
    told = [name for name in request.columns if name not in AXES]
    if told:
        return _OF_SET.fullmatch(told[0]) is not None
    validation = [one for one in named if one.side is Side.VALIDATION]
    plain = [one for one in validation if one.domain is None]
    if any(spells(one.name, metric) for one in plain for metric in SPELLINGS):
        return False
    return any(one.domain is not None for one in validation)


def _domains(
    candidates: Sequence[_Named],
    told: Mapping[str, Mapping[str, str]],
    request: Request,
    where: str,
    *,
    by_set: bool,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The validation sets to choose by, and notes on those that are held out by name."""
    if not by_set:
        names = {ONLY_DOMAIN}
    else:
        names = {domain for per_set in told.values() for domain in per_set}
        validation = [one for one in candidates if one.side is Side.VALIDATION and not told]
        names |= {one.validation_set for one in validation}
    check_held_out(request.held_out, sorted(names), where)
    left = names - set(request.held_out)
    if not left:
        raise InputError(
            f"No validation set of {where} is left after --held-out: hold out fewer.", code="empty"
        )
    if not by_set:
        return (ONLY_DOMAIN,), ()
    sides = divide(left, sources=request.sources, where=where)
    return sides.sources, sides.notes


def _of_metric(
    metric: str, candidates: Iterable[_Named], domains: Sequence[str], where: str
) -> dict[str, str]:
    """Set → column of a metric; nothing where no validation column spells it."""
    found: dict[str, str] = {}
    known = frozenset(domains)
    for one in candidates:
        if one.side is not Side.VALIDATION or one.validation_set not in known:
            continue
        if not spells(one.name, metric):
            continue
        if one.validation_set in found:
            shown = {"loss": "nll", "error_rate": "accuracy"}.get(metric, metric)
            rivals = [found[one.validation_set], one.column]
            option = metric if metric == "error_rate" else shown
            raise InputError(
                f"Expected one column for {shown}, but {where} has {listed(rivals)}: say which one "
                f"with --column {option}={rivals[0]}.",
                code="ambiguous",
            )
        found[one.validation_set] = one.column
    return {domain: found[domain] for domain in domains if domain in found}


def _likely_accuracy(beside: Sequence[str]) -> tuple[str, ...]:
    """What to do where the accuracy may be there under a name of its own."""
    likely = [column for column in beside if says(column) == "accuracy"]
    if not likely:
        return ()
    return (f"if {likely[0]} is the accuracy to keep, add --column accuracy={likely[0]}",)


def _check_outputs(candidates: Sequence[_Named], accuracy: Mapping[str, str], where: str) -> None:
    """Ask which output counts, where a model has several; their common loss is a sum."""
    measures = {one.column: measure(one.name) for one in candidates if one.side is Side.VALIDATION}
    losses = {
        measured.removesuffix(" loss"): column
        for column, measured in measures.items()
        if measured.endswith(" loss")
    }
    outputs = {}
    for column, measured in measures.items():
        output, _, word = measured.rpartition(" ")
        if word in ACCURACY_WORDS and output in losses:
            outputs[column] = losses[output]
    if not outputs or not set(accuracy.values()) <= set(outputs):
        return
    column = next(iter(accuracy.values()), next(iter(outputs)))
    raise InputError(
        f"Expected an accuracy and a loss of one output, but {where} has outputs with one each "
        f"({shortened([*outputs])}): choose one with --column accuracy={column} --column "
        f"nll={outputs[column]}.",
        code="ambiguous",
    )


def _check_sets(
    columns: Mapping[str, Mapping[str, str]],
    domains: Sequence[str],
    inverted: Sequence[str],
    where: str,
) -> None:
    for metric, per_set in columns.items():
        lacking = [domain for domain in domains if domain not in per_set]
        if lacking:
            option = "error_rate" if set(per_set.values()) <= set(inverted) else metric
            raise InputError(
                f"Expected {metric} on every validation set, but {where} has no column for "
                f"{listed(lacking)}: add --column '{option}[{lacking[0]}]=COLUMN', or leave the "
                f"set out with --held-out {lacking[0]}.",
                code="missing",
            )


def _no_classifier(column: str, where: str) -> InputError:
    return InputError(
        f"Expected the log of a classifier, but {where} has {column}, which is of a regression, "
        f"and no accuracy: its loss is no NLL{OTHER_SCORES}.",
        code="unsupported",
    )


def _nothing(absent: Sequence[str], log: Log, named: Sequence[_Named], where: str) -> InputError:
    """What to say where a wanted metric, or every metric, is missing."""
    wanted = listed(absent) if absent else "a validation accuracy or loss"
    found = shortened([one.column for one in named]) if named else "no columns of metrics"
    has = f"{where} ({log.trainer.name}) has {found}"
    metrics = absent or ("accuracy", "nll")
    if absent and absent[0] in log.header:
        return InputError(
            f"Expected {absent[0]} on validation, but {where} does not say which set its column "
            f"of that name was measured on: if it is right, add --column {absent[0]}={absent[0]}.",
            code="held-out",
        )
    for kind, reason in (
        (Side.VALIDATION, "and none is called so: if one of them is that"),
        (Side.HELD_OUT, "and test columns are not read: if they are validation, not the test set"),
        (Side.UNKNOWN, "which may be of training: if one of them is validation"),
    ):
        columns = [one.column for one in named if one.side is kind]
        if columns:
            # A plain `loss` is of training in most logs, whatever its name leaves open.
            likely = [c for c in columns if kind is not Side.UNKNOWN or measure(c) != "loss"]
            option = how_to_map(metrics, likely) if likely else ""
            is_other = not absent and kind is Side.VALIDATION and "COLUMN" in (option or "COLUMN")
            others = OTHER_SCORES if is_other and len(columns) > 1 else ""
            add = f", {reason}, add {option}" if option else ""
            do = others or ("" if option else f": {LOG_THEM}")
            return InputError(
                f"Expected {wanted}, but {has}{add}{do}.",
                code="held-out" if kind is Side.HELD_OUT else "missing",
            )
    return InputError(f"Expected {wanted}, but {has}: {LOG_THEM}.", code="missing")


def how_to_map(metrics: Sequence[str], columns: Sequence[str]) -> str:
    """The options that map the likeliest columns; "" where none of them can be any of the metrics.

    Example:
        >>> how_to_map(["accuracy", "nll"], ["test_acc"]), how_to_map(["accuracy"], ["multi_error"])
        ('--column accuracy=test_acc', '--column error_rate=multi_error')
    """
    options = [option for metric in metrics if (option := _option(metric, columns))]
    if options:
        return " ".join(options)
    possible = (metric for metric in metrics if any(may_be(c, metric) for c in columns))
    metric = next(possible, None) if columns else metrics[0]
    return "" if metric is None else f"--column {metric}=COLUMN"


def _option(metric: str, columns: Sequence[str]) -> str:
    words = (metric, "loss") if metric == "nll" else (metric,)
    for column in columns:
        spelt = any(spells(_on_validation(column), word) for word in words)
        if spelt or (metric != "nll" and is_validation_of(column, metric)):
            return f"--column {metric}={column}"
    errors = (*SPELLINGS["error_rate"], *UNCLEAR_ERRORS) if metric == "accuracy" else ()
    for column in columns:
        if says(column) == "error rate" and measure(_on_validation(column)) in errors:
            return f"--column error_rate={column}"
    return ""


def _on_validation(column: str) -> str:
    return re.sub("test", "val", column, flags=re.IGNORECASE)
