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

BySet = dict[str, str]  # validation set → column


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

    columns: Mapping[str, BySet]
    domains: tuple[str, ...]
    assumed: bool
    inverted: tuple[str, ...]
    told: tuple[str, ...]
    beside: tuple[str, ...]
    notes: tuple[str, ...]
    counts: BySet
    speeds: Mapping[str, tuple[str, str]]


@dataclass(frozen=True)
class _Named:
    """A column, the name that its rule looks at, and the evaluation set that it belongs to."""

    column: str
    name: str
    domain: str | None
    side: Side
    is_own: bool = False


def has_validation(header: Sequence[str], trainer: Trainer) -> bool:
    """Whether some column is a validation accuracy or loss, of a known trainer any metric."""
    names = [one.name for one in _named(header, trainer) if one.side is Side.VALIDATION]
    if trainer is not OTHER:
        return bool(names or trainer.validation)
    return any(spells(name, metric) for name in names for metric in SPELLINGS)


def _named(header: Iterable[str], trainer: Trainer) -> list[_Named]:
    """The columns that measure a model, by what they are called after."""
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
            prefix, of_set = column[: len(PREFIX)], column[len(PREFIX) : end]
            if sets.get(of_set) == prefix:
                name, domain = prefix + column[end + 1 :], of_set
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
    is_training = not set(TRAINING_WORDS).isdisjoint(tokens(domain or ""))
    return Side.TRAINING if is_training else side(name, trainer)


def read_header(log: Log, request: Request) -> Reading:
    """Decide what is read of a log.

    Raises:
        InputError: nothing can be read as validation, or several columns could be meant.
    """
    return _Header(log, request).reading()


class _Header:
    """The columns of a log, and those of them that may be read on each validation set."""

    def __init__(self, log: Log, request: Request) -> None:
        self.log, self.request, self.where = log, request, str(log.path)
        self.named = _named([c for c in log.header if c not in log.axes.values()], log.trainer)
        self.told = self._told()
        own = [one for one in self.named if one.is_own and not self.told]
        # A Trainer logs for our callback, which has names of its own in no other way.
        logged = {one.name.replace("/", "_") for one in self.named}
        of_callback = logged.issuperset(f"{PREFIX}{metric}" for metric in (*MAIN, COUNT))
        self.has_counts = not self.told and (bool(own) or of_callback)
        by_set = self._is_by_set(own or self.named)
        self.candidates = [c for c in own or self.named if (c.domain is not None) == by_set]
        self.domains, self.notes = self._domains(by_set=by_set)
        if by_set:
            self.candidates = [one for one in self.candidates if one.domain in self.domains]

    def reading(self) -> Reading:
        """The columns of accuracy, NLL and the metrics that the caller wants."""
        told, where = self.told, self.where
        measured = {measure(one.name) for one in self.candidates if self.has_counts}
        reported = [name for name in NAMES if measure(name) in measured]
        wanted = dict.fromkeys(("accuracy", "nll", *told, *self.request.metrics, *reported))
        found = {metric: self._read(metric) for metric in wanted}
        columns = {metric: per_set for metric, per_set in found.items() if per_set}
        self._leave_out_old_loss(columns)
        if "accuracy" not in columns:
            rates = columns.get("error_rate") or self._of("error_rate")
            columns = {"accuracy": rates, **columns} if rates else columns
        regression = [one.column for one in self.named if says(one.column) == "regression"]
        if "accuracy" not in columns and regression:
            if not columns:
                raise InputError(
                    f"Expected the log of a classifier, but {where} has {regression[0]}, which is "
                    f"of a regression, and no accuracy: its loss is no NLL{OTHER_SCORES}.",
                    code="unsupported",
                )
            self.candidates = [one for one in self.candidates if measure(one.name) != "loss"]
        losses = {} if "nll" in columns else self._of("loss")
        if losses:
            columns["nll"] = losses
        accuracy = columns.get("accuracy", {})
        told_errors = () if "accuracy" in told else told.get("error_rate", {}).values()
        inverted = [c for c in accuracy.values() if says(c) == "error rate" or c in told_errors]
        if "nll" not in told:
            self._check_outputs(accuracy)
        absent = [name for name in self.request.metrics if name not in columns]
        if absent or not columns:
            raise self._nothing(absent)
        self._check_sets(columns, inverted)
        counts = self._of(COUNT) if self.has_counts else {}
        read = {column for per_set in (*columns.values(), counts) for column in per_set.values()}
        validation = [one.column for one in self.named if one.side is Side.VALIDATION]
        beside = tuple(column for column in validation if column not in read)
        likely = [column for column in beside if says(column) == "accuracy"]
        if "accuracy" not in columns and likely:
            option = f"--column accuracy={likely[0]}"
            self.notes.append(f"if {likely[0]} is the accuracy to keep, add {option}")
        return Reading(
            columns, self.domains, bool(losses), tuple(inverted), tuple(told), beside,
            tuple(self.notes), counts, self._speeds(accuracy),
        )  # fmt: skip

    def _told(self) -> dict[str, BySet]:
        """Metric → set → column, as the caller says."""
        told: dict[str, BySet] = {}
        log = self.log
        named = {name: c for name, c in self.request.columns.items() if name not in AXES}
        for axis in (name for name in self.request.columns if name in AXES):
            if log.axes.get(axis) != self.request.columns[axis]:
                raise InputError(
                    f"Expected no --column {axis}, because {self.where} ({log.trainer.name}) "
                    f"itself says the {axis} of every value: leave it out.",
                    code="unsupported",
                )
        for name, column in named.items():
            if column not in log.header:
                raise InputError(
                    f"Expected a column {column!r} for {name}, but {self.where} has "
                    f"{shortened(log.header)}: check the name.",
                    code="missing",
                )
            match = _OF_SET.fullmatch(name)
            metric, domain = (match["name"], match["set"]) if match else (name, ONLY_DOMAIN)
            check_told(metric, column, self.where)
            told.setdefault(metric, {})[domain] = column
        if len({_OF_SET.fullmatch(name) is None for name in named}) > 1:
            raise InputError(
                "Expected --column for one validation set or for several, but got both in "
                f"{self.where}: name the set of each, as in --column 'accuracy[photo]=COLUMN'.",
                code="ambiguous",
            )
        return told

    def _is_by_set(self, named: Sequence[_Named]) -> bool:
        """Whether several validation sets are read.

        Beside a set without a name, which trainers evaluate while they train, named ones are of
        single evaluations, and are not read.
        """
        told = [name for name in self.request.columns if name not in AXES]
        if told:
            return _OF_SET.fullmatch(told[0]) is not None
        validation = [one for one in named if one.side is Side.VALIDATION]
        plain = [one for one in validation if one.domain is None]
        if any(spells(one.name, metric) for one in plain for metric in SPELLINGS):
            return False
        return any(one.domain is not None for one in validation)

    def _domains(self, *, by_set: bool) -> tuple[tuple[str, ...], list[str]]:
        """The validation sets to choose by, and notes on those that are held out by name."""
        request, where = self.request, self.where
        names = {domain for per_set in self.told.values() for domain in per_set}
        if not self.told:
            validation = (one for one in self.candidates if one.side is Side.VALIDATION)
            names = {one.domain or ONLY_DOMAIN for one in validation}
        if not by_set:
            names = {ONLY_DOMAIN}
        check_held_out(request.held_out, sorted(names), where)
        left = names - set(request.held_out)
        if not left:
            raise InputError(
                f"No validation set of {where} is left after --held-out: hold out fewer.",
                code="empty",
            )
        if not by_set:
            return (ONLY_DOMAIN,), []
        sides = divide(left, sources=request.sources, where=where)
        return sides.sources, [*sides.notes]

    def _read(self, metric: str) -> BySet:
        """Set → column of a metric, as the caller says or by its name."""
        found = self.told.get(metric) or self._of(metric)
        return {domain: found[domain] for domain in self.domains if domain in found}

    def _of(self, metric: str) -> BySet:
        """Set → column of a metric; nothing where no validation column spells it."""
        found: BySet = {}
        for one in self.candidates:
            domain = one.domain or ONLY_DOMAIN
            if one.side is not Side.VALIDATION or not spells(one.name, metric):
                continue
            if domain in found:
                shown = {"loss": "nll", "error_rate": "accuracy"}.get(metric, metric)
                option = metric if metric == "error_rate" else shown
                raise InputError(
                    f"Expected one column for {shown}, but {self.where} has "
                    f"{listed([found[domain], one.column])}: say which one with --column "
                    f"{option}={found[domain]}.",
                    code="ambiguous",
                )
            found[domain] = one.column
        return {domain: found[domain] for domain in self.domains if domain in found}

    def _leave_out_old_loss(self, columns: Mapping[str, BySet]) -> None:
        """An Ultralytics before 8.3.39 wrote a wrong loss; YOLOv5, with `lr/0`, did not do it."""
        header = set(self.log.header)
        is_old = self.log.trainer.name == ULTRALYTICS.name and not {"time", "lr/0"} & header
        if is_old and OLD_LOSS in header:
            is_told = OLD_LOSS in columns.get("nll", {}).values()
            self.candidates = [one for one in self.candidates if one.column != OLD_LOSS]
            self.notes.append(f"{OLD_LOSS} is {'' if is_told else 'not '}read: {SOFTMAX_TWICE}")

    def _check_outputs(self, accuracy: BySet) -> None:
        """Ask which output counts, where a model has several; their common loss is a sum."""
        validation = [one for one in self.candidates if one.side is Side.VALIDATION]
        measures = {one.column: measure(one.name) for one in validation}
        losses = {m.removesuffix(" loss"): c for c, m in measures.items() if m.endswith(" loss")}
        outputs = {}
        for column, measured in measures.items():
            output, _, word = measured.rpartition(" ")
            if word in ACCURACY_WORDS and output in losses:
                outputs[column] = losses[output]
        if not outputs or not set(accuracy.values()) <= set(outputs):
            return
        column = next(iter(accuracy.values()), next(iter(outputs)))
        raise InputError(
            f"Expected an accuracy and a loss of one output, but {self.where} has outputs with one "
            f"each ({shortened([*outputs])}): choose one with --column accuracy={column} --column "
            f"nll={outputs[column]}.",
            code="ambiguous",
        )

    def _check_sets(self, columns: Mapping[str, BySet], inverted: Sequence[str]) -> None:
        for metric, per_set in columns.items():
            lacking = [domain for domain in self.domains if domain not in per_set]
            if lacking:
                option = "error_rate" if set(per_set.values()) <= set(inverted) else metric
                raise InputError(
                    f"Expected {metric} on every validation set, but {self.where} has no column "
                    f"for {listed(lacking)}: add --column '{option}[{lacking[0]}]=COLUMN', or "
                    f"leave the set out with --held-out {lacking[0]}.",
                    code="missing",
                )

    def _speeds(self, accuracy: BySet) -> dict[str, tuple[str, str]]:
        """Set → how long evaluations took and how fast they were, of the set of each accuracy."""
        found = {}
        for domain, column in accuracy.items():
            before = column[: len(PREFIX)]
            of_set = "" if domain == ONLY_DOMAIN else f"{domain}_"
            pair = (f"{before}{of_set}runtime", f"{before}{of_set}samples_per_second")
            same = column.startswith(before + of_set) and _TIMES.fullmatch(pair[0])
            if same and set(pair) <= set(self.log.header):
                found[domain] = pair
        return found

    def _nothing(self, absent: Sequence[str]) -> InputError:
        """What to say where a wanted metric, or every metric, is missing."""
        where, log = self.where, self.log
        wanted = listed(absent) if absent else "a validation accuracy or loss"
        columns = [one.column for one in self.named]
        found = shortened(columns) if columns else "no columns of metrics"
        has = f"{where} ({log.trainer.name}) has {found}"
        if absent and absent[0] in log.header:
            return InputError(
                f"Expected {absent[0]} on validation, but {where} does not say which set its "
                f"column of that name was measured on: if it is right, add --column "
                f"{absent[0]}={absent[0]}.",
                code="held-out",
            )
        for kind, reason in (
            (Side.VALIDATION, "and none is called so: if one of them is that"),
            (Side.HELD_OUT, "and test columns are not read: if they are validation, not the test "
             "set"),
            (Side.UNKNOWN, "which may be of training: if one of them is validation"),
        ):  # fmt: skip
            columns = [one.column for one in self.named if one.side is kind]
            if not columns:
                continue
            # A plain `loss` is of training in most logs, whatever its name leaves open.
            likely = [c for c in columns if kind is not Side.UNKNOWN or measure(c) != "loss"]
            option = how_to_map(absent or ("accuracy", "nll"), likely) if likely else ""
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
