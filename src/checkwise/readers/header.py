"""What is read of a log: which column is accuracy, loss or another score, on which sets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from checkwise.errors import InputError
from checkwise.metrics import MAIN, NAMES
from checkwise.readers.columns import (
    ACCURACY_WORDS,
    COUNT,
    PREFIX,
    SPELLINGS,
    TIMES,
    UNCLEAR_ERRORS,
    Named,
    Side,
    measure,
    named_columns,
    spells,
)
from checkwise.readers.log import ULTRALYTICS, Log
from checkwise.readers.request import Request
from checkwise.records import (
    ONLY_DOMAIN,
    check_told,
    divide,
    has_other_loss,
    headline,
    is_validation_of,
    may_be,
    says,
    short_name,
    sums_losses,
)
from checkwise.words import listed, shortened

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

BySet = dict[str, str]  # validation set → column


@dataclass(frozen=True)
class Reading:
    """What is read of a log."""

    columns: Mapping[str, BySet]  # by metric
    domains: tuple[str, ...]  # the validation sets, sorted
    assumed: bool  # whether NLL is a loss that is taken for a cross-entropy
    inverted: tuple[str, ...]  # columns of accuracy that are error rates, 1 minus it
    told: tuple[str, ...]  # metrics whose columns the caller names
    beside: tuple[str, ...]  # validation columns that are not read
    notes: tuple[str, ...]
    sums: Mapping[str, tuple[str, ...]]  # a loss that is logged in parts → the columns of these
    counts: BySet  # the columns with the number of a set's examples
    # By set, the columns with the seconds of an evaluation and its examples a second.
    speeds: Mapping[str, tuple[str, str]]


def read_header(log: Log, request: Request) -> Reading:
    """Decide what is read of a log."""
    return _Header(log, request).reading()


class _Header:
    """The columns of a log, and those of them that may be read on each validation set."""

    def __init__(self, log: Log, request: Request) -> None:
        self.log, self.request, self.where = log, request, str(log.path)
        header = [c for c in log.header if c not in log.axes.values()]
        self.named = named_columns(header, log.trainer, log.called)
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

    @property
    def validation(self) -> list[Named]:
        """The candidates that are of validation."""
        return [one for one in self.candidates if one.side is Side.VALIDATION]

    def reading(self) -> Reading:
        """The columns of accuracy, NLL and the metrics that the caller wants."""
        told, where = self.told, self.where
        measured = {measure(one.name) for one in self.candidates if self.has_counts}
        reported = [name for name in NAMES if measure(name) in measured]
        wanted = dict.fromkeys(("accuracy", "nll", *told, *self.request.metrics, *reported))
        found = {metric: self._read(metric) for metric in wanted}
        columns = {metric: per_set for metric, per_set in found.items() if per_set}
        self._leave_out_old_loss(columns)
        rated: list[str] = []
        if "accuracy" not in columns:
            rates = columns.get("error_rate") or self._of("error_rate")
            columns = {"accuracy": rates, **columns} if rates else columns
            rated = [*rates.values()]
        scores = {} if "accuracy" in columns else self._scores()
        columns |= scores
        regression = [one.column for one in self.named if says(one.column) == "regression"]
        if "accuracy" not in columns and regression and not scores:
            if not columns:
                raise InputError(
                    f"Expected the log of a classifier, but {where} has {regression[0]}, which is "
                    f"of a regression, and no accuracy: its loss is no NLL{OTHER_SCORES}.",
                    code="unsupported",
                )
            self.candidates = [one for one in self.candidates if measure(one.name) != "loss"]
        assumed, sums = self._add_loss(columns, scores)
        accuracy = columns.get("accuracy", {})
        told_errors = () if "accuracy" in told else told.get("error_rate", {}).values()
        errors = {*rated, *told_errors}
        inverted = [c for c in accuracy.values() if says(c) == "error rate" or c in errors]
        if "nll" not in told:
            self._check_outputs(accuracy)
        absent = [name for name in self.request.metrics if name not in columns]
        if absent or not columns:
            raise self._nothing(absent)
        self._check_sets(columns, inverted)
        counts = self._of(COUNT) if self.has_counts else {}
        read = {column for per_set in (*columns.values(), counts) for column in per_set.values()}
        read |= {part for parts in sums.values() for part in parts}
        validation = [one.column for one in self.named if one.side is Side.VALIDATION]
        beside = tuple(column for column in validation if column not in read)
        likely = [column for column in beside if says(column) == "accuracy"]
        if "accuracy" not in columns and likely:
            option = f"--column accuracy={likely[0]}"
            self.notes.append(f"if {likely[0]} is the accuracy to keep, add {option}")
        return Reading(
            columns, self.domains, assumed, tuple(inverted), tuple(told), beside,
            tuple(self.notes), sums, counts, self._speeds(accuracy),
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

    def _is_by_set(self, named: Sequence[Named]) -> bool:
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
            names = {one.domain or ONLY_DOMAIN for one in self.validation}
        if not by_set:
            names = {ONLY_DOMAIN}
        sources = request.sources if by_set else ()
        sides = divide(names, held_out=request.held_out, sources=sources, where=where)
        return sides.sources, [*sides.notes]

    def _read(self, metric: str) -> BySet:
        """Set → column of a metric, as the caller says or by its name."""
        found = self.told.get(metric) or self._of(metric)
        return {domain: found[domain] for domain in self.domains if domain in found}

    def _of(self, metric: str) -> BySet:
        """Set → column of a metric; nothing where no validation column spells it."""
        found: BySet = {}
        for one in (one for one in self.validation if spells(one.name, metric)):
            domain = one.domain or ONLY_DOMAIN
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

    def _scores(self) -> dict[str, BySet]:
        """Score → set → column of what stands in for accuracy; several where nothing says which.

        Of several, the one that the trainer's own best is judged by; none where that is a loss.
        """
        if self.request.metrics or set(self.told) - {"nll"}:
            return {}
        named = {one.name: one for one in self.validation}
        found = headline(named)
        best = self.log.best.column if self.log.best else ""
        if len(found) > 1 and best:
            found = [name for name in found if named[name].column == best]
        elif len(found) > 1 and self.log.trainer.own_score is not None:
            found = [sorted(found, key=[*named].index)[self.log.trainer.own_score]]
        if [named[name].column for name in found] == ["metrics/mAP50-95(B)"]:
            # What older versions of Ultralytics weigh in, as they keep their best.
            found += [name for name in named if named[name].column == "metrics/mAP50(B)"]
        short = {name: short_name(name) for name in found}
        if len({*short.values()}) < len(short):
            short = {name: name for name in found}
        return {short[name]: self._of(name) for name in found}

    def _add_loss(
        self, columns: dict[str, BySet], scores: Iterable[str]
    ) -> tuple[bool, dict[str, tuple[str, ...]]]:
        """Add the loss; whether it is taken for the NLL, and the parts of a detector's sum."""
        losses = {} if "nll" in columns else self._of("loss")
        is_nll = not any(map(has_other_loss, scores))
        if losses:
            columns["nll" if is_nll else "loss"] = losses
            return is_nll, {}
        asked = "loss" in self.request.metrics or any(map(sums_losses, scores))
        parts = [one.column for one in self.validation if measure(one.name).endswith(" loss")]
        if not parts or not asked or "loss" in columns or self.domains != (ONLY_DOMAIN,):
            return False, {}
        columns["loss"] = {ONLY_DOMAIN: " + ".join(parts)}
        return False, {" + ".join(parts): tuple(parts)}

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
        measures = {one.column: measure(one.name) for one in self.validation}
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
            same = column.startswith(before + of_set) and TIMES.fullmatch(pair[0])
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
