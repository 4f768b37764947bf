"""Metrics that somebody else has measured: names and numbers of one checkpoint on one domain."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from checkwise import metrics
from checkwise.errors import InputError
from checkwise.metrics import (
    BANDWIDTH,
    BINS,
    CountedExamples,
    Outcomes,
    Predictions,
    Report,
    binary,
    check_bins,
    half_logits,
    read,
)
from checkwise.records.checkpoint_record import CheckpointRecord, DomainRecord, Records, facts_of
from checkwise.records.checks import LARGEST_COUNT, LARGEST_DIFFERENCE, outside, plain_name
from checkwise.records.checks import domains as domain_names
from checkwise.records.examples import Examples, IntArray, examples_of, group_numbers
from checkwise.records.held_out import Sides, as_names, divide
from checkwise.words import shown

_COUNTS: Final = ("n", "correct")


def plain_metrics(entry: Mapping[str, Any], where: str) -> DomainRecord:
    """``{"accuracy": 0.9, "nll": 0.3, "n": 500}`` as a record; numbers may be 0-d arrays.

    A checkpoint with a value that is not finite counts as diverged.
    """
    counts = {name: _count(entry[name], name, where) for name in _COUNTS if name in entry}
    values = {
        plain_name(name, "a metric's name"): _number(value, name, where)
        for name, value in entry.items()
        if name not in _COUNTS
    }
    if not values:
        raise InputError(
            f"Expected at least one metric at {where}, but got none: give accuracy, nll, or any "
            "other score.",
            code="empty",
        )
    n = counts.get("n")
    if not all(np.isfinite(value) for value in values.values()):
        return DomainRecord({}, n)
    for name, value in values.items():
        if outside(np.array(value), name):
            raise InputError(
                f"Expected {name} as a fraction in its range, but got {value:g} at {where}: check "
                "how it was measured."
            )
    return DomainRecord(values, n, _correct(counts, values.get("accuracy"), where))


def _correct(counts: Mapping[str, int], accuracy: float | None, where: str) -> int | None:
    """The number correct as given, or accuracy × n where that is whole."""
    n, correct = counts.get("n"), counts.get("correct")
    if n is None or accuracy is None:
        if correct is not None:
            raise InputError(
                f"Expected n and accuracy beside the number correct at {where}: add them.",
                code="missing",
            )
        return None
    if correct is None:
        product = accuracy * n
        whole = round(product)
        return whole if abs(product - whole) <= min(1e-3 + 1e-7 * n, 0.4) else None
    if correct > n or abs(correct / n - accuracy) > LARGEST_DIFFERENCE:
        raise InputError(
            f"{correct} correct of n = {n} does not fit accuracy {accuracy:g} at {where}: check "
            "both.",
            code="differs",
        )
    return correct


def _count(value: Any, name: str, where: str) -> int:
    number = _number(value, name, where)
    least = 1 if name == "n" else 0
    if not np.isfinite(number) or number != int(number) or not least <= number <= LARGEST_COUNT:
        raise InputError(
            f"Expected a whole number of {least} or more as {name}, but got {shown(value)} at "
            f"{where}."
        )
    return int(number)


def _number(value: Any, name: str, where: str) -> float:
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()  # of NumPy, torch and others
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(
            f"Expected a number for {name}, but got {shown(value)} at {where}: give one value."
        )
    return float(value)


# Relative to the largest logit: twice what two logits that were rounded can be off.
_HALF: Final = 2.0**-9


def metrics_of(saved: Outcomes, labels: IntArray) -> dict[str, float]:
    """The metrics that follow from what is saved of every example."""
    counts = np.bincount(labels)
    recall = np.bincount(labels, weights=saved.correct)[counts > 0] / counts[counts > 0]
    return {
        "accuracy": int(saved.correct.sum()) / len(labels),
        "nll": float(saved.nll.mean()),
        "worst_class_accuracy": float(recall.min()),
    }


def check_same(saved: Outcomes, computed: Outcomes, predictions: Predictions) -> None:
    """Refuse outcomes of other outputs: beside rounding to half precision they have to agree."""
    if predictions.kind != "logits":
        raise InputError(
            "Expected `correct` and `nll` beside logits, but got them beside probabilities: leave "
            "them out.",
            code="unsupported",
        )
    for start, rows, labels in predictions.blocks():
        part = slice(start, start + len(labels))
        largest = np.abs(np.where(np.isfinite(rows), rows, 0)).max(axis=1)
        apart = np.abs(saved.nll[part] - computed.nll[part])
        odd = ~(apart <= _HALF * (1 + largest))
        odd |= (saved.correct[part] != computed.correct[part]) & ~_nearly_tied(rows, largest)
        if odd.any():
            row = int(np.flatnonzero(odd)[0])
            raise InputError(
                f"Expected `correct` and `nll` of the saved logits, but example {start + row} has "
                f"{bool(saved.correct[start + row])} and {saved.nll[start + row]:.4g} where its "
                f"logits give {bool(computed.correct[start + row])} and "
                f"{computed.nll[start + row]:.4g}: the file is damaged, or holds those of another "
                "checkpoint; save it again, or save logits and labels alone.",
                code="differs",
            )


def _nearly_tied(rows: Any, largest: Any) -> Any:
    """Rows whose two largest logits rounding to half precision may have put in another order."""
    two = np.sort(rows, axis=1)[:, -2:]
    return two[:, 1] - two[:, 0] <= _HALF * (1 + largest)


LARGEST_STEP = 2**53


def check_step(step: object) -> int:
    """A training step, refused unless it is a whole number that every reader can hold."""
    if isinstance(step, bool) or not isinstance(step, int | np.integer) or step < 0:
        raise InputError(f"Expected a whole number of 0 or more as step, but got {shown(step)}.")
    if step > LARGEST_STEP:
        raise InputError(f"Expected a step of at most {LARGEST_STEP}, but got {shown(step)}.")
    return int(step)


@dataclass
class Recorder:
    """Measures checkpoints and collects the facts of a trajectory.

    What is in ``held_out`` is skipped unread, and so are names that look held out, unless they are
    in ``sources``. ``keeps_examples`` keeps which examples were correct, and their NLL;
    ``keeps_logits`` their logits too, in half precision.
    """

    kind: str = "logits"
    bins: int = BINS
    bandwidth: float = BANDWIDTH
    held_out: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    records: Records = field(default_factory=Records)
    keeps_examples: bool = False
    labels: dict[str, IntArray] = field(default_factory=dict)
    groups: dict[str, IntArray] = field(default_factory=dict)
    keeps_logits: bool = False

    def __post_init__(self) -> None:
        if self.kind not in ("logits", "probs"):
            raise InputError(f"Expected kind 'logits' or 'probs', but got {self.kind!r}.")
        self.bins, self.bandwidth = check_bins(self.bins, self.bandwidth)

    def copy(self) -> Recorder:
        """One that can go on by itself."""
        return replace(
            self, records=self.records.copy(), labels=dict(self.labels), groups=dict(self.groups)
        )

    def measure(self, step: int, outputs: Mapping[str, Any]) -> CheckpointRecord:
        """One checkpoint: ``{domain: (outputs, labels)}``, a ``Report`` each, or plain metrics."""
        check_step(step)
        if not isinstance(outputs, Mapping):
            raise InputError(
                f"Expected {{domain: (outputs, labels)}} at step {step}, but got "
                f"{type(outputs).__name__}: name the validation set, even a single one."
            )
        sides = self._sides(step, outputs)
        measured = {name: self._measure(step, name, outputs[name]) for name in sides.sources}
        lost = [name for name, domain in measured.items() if not domain.values]
        notes = list(sides.notes)
        if lost:
            notes.append(f"step {step} diverged: outputs of {lost[0]!r} are not finite")
            measured = {
                name: replace(domain, values={}, correct=None, hits=None, losses=None, said=None)
                for name, domain in measured.items()
            }
        record = CheckpointRecord(int(step), measured, bool(lost), tuple(notes))
        _check_domains_alike(record)
        self.records.check_alike(record)
        return record

    def put(self, record: CheckpointRecord) -> None:
        """Add a record; it replaces the one of the same step."""
        self.records[record.step] = record

    def in_order(self) -> list[CheckpointRecord]:
        """The records by step."""
        return [self.records[step] for step in sorted(self.records)]

    def facts(self) -> dict[str, Any]:
        """Arguments of ``Trajectory``."""
        settings = {"bins": self.bins, "bandwidth": self.bandwidth}
        facts = facts_of(self.in_order())
        examples = examples_of(self.in_order(), labels=self.labels, groups=self.groups)
        return {**facts, **settings, "examples": examples}

    def _sides(self, step: int, outputs: Mapping[str, Any]) -> Sides:
        for name in (*self.held_out, *self.sources):
            if self.records and name not in outputs:  # the steps before have it
                raise InputError(
                    f"Expected the domain {name!r} at every step, but step {step} has only "
                    f"{', '.join(map(str, outputs)) or 'none'}: evaluate the same domains at every "
                    "checkpoint.",
                    code="missing",
                )
        return divide(
            domain_names(outputs),
            held_out=self.held_out,
            sources=self.sources,
            where=f"step {step}",
        )

    def _measure(self, step: int, name: str, entry: Any) -> DomainRecord:
        """Metrics and counts; no metrics where the outputs are not finite."""
        where = f"step {step}, domain {name!r}"
        if isinstance(entry, Report):
            record = DomainRecord(
                entry.values(),
                entry.n,
                entry.correct,
                entry.classes,
                label_counts=_sha256(np.asarray(entry.per_class["count"], np.int64)),
            )
            return self._with_examples(record, entry.examples, where)
        if isinstance(entry, Mapping):
            metrics_alone = {n: value for n, value in entry.items() if n != "examples"}
            return self._with_examples(
                plain_metrics(metrics_alone, where), entry.get("examples"), where
            )
        if not isinstance(entry, tuple | list) or not _is_outputs(*entry):
            raise InputError(
                f"Expected (outputs, labels), a Report or plain metrics at {where}, but got "
                f"{type(entry).__name__}."
            )
        try:
            return self._evaluate(name, *entry)
        except InputError as error:
            raise InputError(f"{error} ({where})", code=error.code) from None

    def _with_examples(self, record: DomainRecord, examples: Any, where: str) -> DomainRecord:
        """The record with what an accumulator kept of every example, in the order of the set."""
        if examples is None or not record.values:
            return record
        if not isinstance(examples, CountedExamples) or len(examples.correct) != record.n:
            raise InputError(
                f"Expected the examples of an Accumulator at {where}, but got {shown(examples)}."
            )
        record = replace(
            record,
            labels=_sha256(examples.labels),
            said=examples if self.keeps_logits and examples.logits is not None else None,
        )
        if not self.keeps_examples:
            return record
        return replace(record, correct=int(examples.correct.sum()), hits=examples.correct)

    def _evaluate(
        self,
        name: str,
        outputs: Any,
        labels: Any,
        groups: Any = None,
        saved: Outcomes | None = None,
    ) -> DomainRecord:
        """Metrics of outputs; ``saved`` are their outcomes from a higher precision."""
        predictions = read(**{"logits": None, "probs": None, self.kind: outputs}, labels=labels)
        facts: dict[str, Any] = {
            "n": len(predictions.labels),
            "classes": predictions.classes,
            "labels": _sha256(predictions.labels),
        }
        self.labels.setdefault(name, predictions.labels)
        if groups is not None:
            numbers = group_numbers(groups, len(predictions.labels))
            self.groups.setdefault(name, numbers)
            facts["groups"] = _sha256(numbers)
        if self.kind == "logits" and _blown_up(predictions):
            return DomainRecord({}, **facts)
        accumulator = metrics.Accumulator(
            classes=predictions.classes, bins=self.bins, bandwidth=self.bandwidth
        )
        outcomes = Outcomes.of(len(predictions.labels)) if self.keeps_examples else None
        accumulator.add(predictions, outcomes)
        own = metrics.evaluate_registered(
            **{self.kind: predictions.values}, labels=predictions.labels
        )
        report = accumulator.result()
        values, correct = {**report.values(), **own}, report.correct
        if saved is not None and outcomes is not None:
            check_same(saved, outcomes, predictions)
            outcomes, correct = saved, int(saved.correct.sum())
            values |= metrics_of(saved, predictions.labels)
        if outcomes is not None:
            facts |= {"hits": outcomes.correct, "losses": outcomes.nll}
            if self.keeps_logits:
                facts["said"] = CountedExamples(
                    outcomes.correct, predictions.labels, outcomes.nll, half_logits(predictions)
                )
        return DomainRecord(values, correct=correct, **facts)


def _check_domains_alike(record: CheckpointRecord) -> None:
    for name, domain in record.domains.items():
        if set(domain.values) != set(record.metrics):
            odd = sorted(set(domain.values).symmetric_difference(record.metrics))
            raise InputError(
                f"Expected the same metrics of every domain, but {name!r} differs in "
                f"{', '.join(odd)} at step {record.step}: measure every domain alike.",
                code="differs",
            )


def _is_outputs(*entry: Any) -> bool:
    """Outputs and labels; groups and saved outcomes may follow."""
    return len(entry) in (2, 3) or (len(entry) == 4 and isinstance(entry[3], Outcomes | None))


def _blown_up(predictions: Predictions) -> bool:
    """NaN or +inf somewhere; -inf is a class that was masked out."""
    return any(
        np.isnan(rows).any() or np.isposinf(rows).any() for _, rows, _ in predictions.blocks()
    )


def evaluate(
    saved: Mapping[int, Mapping[str, Any]],
    *,
    kind: str,
    bins: int,
    bandwidth: float,
    held_out: str | Iterable[str] | None,
    sources: str | Iterable[str] | None,
    groups: Mapping[str, Any] | None,
    progress: Callable[[int], None] | None,
) -> dict[str, Any]:
    """Arguments of ``Trajectory`` from ``{step: {domain: (outputs, labels)}}``."""
    names = as_names(held_out), as_names(sources)
    recorder = Recorder(kind, bins, bandwidth, *names, keeps_examples=True)
    for done, step in enumerate(sorted(saved), start=1):
        recorder.put(recorder.measure(step, saved[step]))
        if progress:
            progress(done)
    facts = recorder.facts()
    examples: Examples | None = facts["examples"]
    if examples is None:  # reports instead of outputs, or nothing but diverged checkpoints
        return facts
    if kind == "logits":
        domains = examples.domains
        examples = examples.with_logits(
            lambda s: {
                name: binary(z, y, "logits")
                for name in domains
                for z, y in [tuple(saved[s][name])[:2]]
            }
        )
    return {**facts, "examples": examples if groups is None else examples.grouped(groups)}


def _sha256(array: IntArray) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()
