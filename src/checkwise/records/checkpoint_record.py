"""What is recorded of one checkpoint: its metrics and counts on every source domain."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.metrics import CountedExamples
from checkwise.records.examples import BoolArray, FloatArray

LARGEST_GROUPS: Final = 1 << 29  # bytes of the numbers of 134 million examples
_FACTS: Final = {
    "n": "examples",
    "classes": "classes",
    "label_counts": "labels",
    "labels": "labels",
    "groups": "groups",
}


@dataclass(frozen=True)
class DomainRecord:
    """One checkpoint on one domain.

    Attributes:
        values: metric → value as a fraction; empty where the checkpoint diverged.
        n, correct, classes: as far as they are known.
        labels: SHA-256 of the labels in their order, where they were seen and have one.
        label_counts: SHA-256 of how many examples each class has, whatever their order.
        groups: SHA-256 of the groups of the examples, where they were named.
        hits: whether each example was predicted correctly, where that was kept.
        losses: −log p of each example's label, likewise.
        said: labels and logits too, on their way to a file.
    """

    values: Mapping[str, float]
    n: int | None = None
    correct: int | None = None
    classes: int | None = None
    labels: str | None = None
    groups: str | None = field(default=None, repr=False)
    label_counts: str | None = field(default=None, repr=False)
    hits: BoolArray | None = field(default=None, compare=False, repr=False)
    losses: FloatArray | None = field(default=None, compare=False, repr=False)
    said: CountedExamples | None = field(default=None, compare=False, repr=False)

    def as_dict(self) -> dict[str, Any]:
        """The entry of a JSON line; what is not known is left out."""
        known = {
            name: value
            for name in ("n", "correct", "classes", "labels", "label_counts", "groups")
            if (value := getattr(self, name)) is not None
        }
        bits = {} if self.hits is None else {"hits": packed_bits(self.hits)}
        return {**known, "values": dict(self.values), **bits}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> DomainRecord:
        """The record of an entry."""
        if "losses" in entry or "said" in entry:
            raise ValueError("what every example said, in a line")
        record = cls(**{name: value for name, value in entry.items() if name != "hits"})
        if "hits" not in entry:
            return record
        if type(record.n) is not int:
            raise ValueError("bits of an unknown number of examples")
        hits = unpacked_bits(entry["hits"], record.n)
        if int(hits.sum()) != record.correct:
            raise ValueError("bits that do not add up")
        return replace(record, hits=hits)


@dataclass(frozen=True)
class CheckpointRecord:
    """One checkpoint on every source domain, sorted by name."""

    step: int
    domains: Mapping[str, DomainRecord]
    diverged: bool = False
    notes: tuple[str, ...] = ()

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics that every domain has; none where the checkpoint diverged."""
        return tuple(next(iter(self.domains.values())).values)

    def as_dict(self) -> dict[str, Any]:
        """One JSON line."""
        return {
            "step": self.step,
            "diverged": self.diverged,
            "domains": {name: domain.as_dict() for name, domain in self.domains.items()},
            **({"notes": list(self.notes)} if self.notes else {}),
        }

    @classmethod
    def from_dict(cls, line: Mapping[str, Any]) -> CheckpointRecord:
        """The record of a JSON line."""
        try:
            entries = line["domains"].items()
            domains = {name: DomainRecord.from_dict(entry) for name, entry in entries}
            record = cls(line["step"], domains, line["diverged"], tuple(line.get("notes", ())))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a record: {error}") from None
        if not _is_whole(record):
            raise ValueError("not a record: a value of another kind than it has to be")
        return record


def packed_bits(hits: BoolArray) -> str:
    """One bit per example, as text."""
    return b64encode(np.packbits(hits).tobytes()).decode()


def unpacked_bits(text: object, n: int) -> BoolArray:
    """The bits of n examples; a ValueError where the text does not hold as many."""
    raw = _decoded(text)
    if len(raw) != (n + 7) // 8:
        raise ValueError(f"bits of another number of examples than {n}")
    return np.unpackbits(np.frombuffer(raw, dtype=np.uint8), count=n).astype(np.bool_)


def packed_numbers(numbers: NDArray[np.int64]) -> str:
    """Whole numbers of 0 or more, as text."""
    return b64encode(zlib.compress(numbers.astype("<u4").tobytes(), 9)).decode()


def unpacked_numbers(text: object) -> NDArray[np.int64]:
    """What ``packed_numbers`` was given."""
    unpacking = zlib.decompressobj()
    try:
        raw = unpacking.decompress(_decoded(text), LARGEST_GROUPS)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if unpacking.unconsumed_tail or len(raw) % 4:
        raise ValueError("no whole numbers")
    return np.frombuffer(raw, dtype="<u4").astype(np.int64)


def _decoded(text: object) -> bytes:
    if not isinstance(text, str):
        raise ValueError("no text")
    return b64decode(text.encode("ascii"), validate=True)


def _is_whole(record: CheckpointRecord) -> bool:
    return (
        type(record.step) is int
        and record.step >= 0
        and type(record.diverged) is bool
        and bool(record.domains)
        and all(isinstance(note, str) for note in record.notes)
        and all(_is_whole_domain(d, record.diverged) for d in record.domains.values())
    )


def _is_whole_domain(domain: DomainRecord, diverged: bool) -> bool:
    counts = (domain.n, domain.correct, domain.classes)
    digests = (domain.labels, domain.label_counts, domain.groups)
    return (
        all(count is None or type(count) is int for count in counts)
        and all(digest is None or isinstance(digest, str) for digest in digests)
        and isinstance(domain.values, Mapping)
        and all(type(value) in (int, float) for value in domain.values.values())
        and bool(domain.values) is not diverged
    )


class Records(dict[int, CheckpointRecord]):
    """Records by step, with what they have in common: another one needs a single comparison."""

    _common: _Common | None = None  # None: to be found out
    rewritten: int = 0  # how often a record was replaced or taken back

    def copy(self) -> Records:
        """The same records, which can go on by themselves."""
        other, common = Records(self), self._common
        if common is not None:
            other._common = replace(common, facts=dict(common.facts), steps=set(common.steps))
        return other

    def check_alike(self, record: CheckpointRecord) -> None:
        """Refuse a checkpoint that was measured on other examples, or by other metrics.

        The record of the same step, which it replaces, has no say.
        """
        if self._common is None:
            self._common = _Common.of(self.values())
        common = self._common
        if record.step in common.steps:
            common = _Common.of(other for step, other in self.items() if step != record.step)
        common.check(record)

    def __setitem__(self, step: int, record: CheckpointRecord) -> None:
        self._forget(step)
        super().__setitem__(step, record)
        if self._common is not None:
            self._common.add(record)

    def __delitem__(self, step: int) -> None:
        self._forget(step)
        super().__delitem__(step)

    def _forget(self, step: int) -> None:
        self.rewritten += step in self
        if self._common is not None and step in self._common.steps:
            self._common = None


@dataclass
class _Common:
    """What is known of all records: the first of them, and what others said first."""

    first: CheckpointRecord | None = None
    facts: dict[tuple[str, str], tuple[Any, int]] = field(default_factory=dict)  # value, step
    measured: CheckpointRecord | None = None  # the first that did not diverge
    steps: set[int] = field(default_factory=set)  # of the records that say so

    @classmethod
    def of(cls, records: Iterable[CheckpointRecord]) -> _Common:
        common = cls()
        for record in records:
            common.add(record)
        return common

    def add(self, record: CheckpointRecord) -> None:
        if self.first is None:
            self.first = record
            self.steps.add(record.step)
        for name, domain in record.domains.items():
            for fact in _FACTS:
                value = getattr(domain, fact)
                if value is not None and (name, fact) not in self.facts:
                    self.facts[name, fact] = value, record.step
                    self.steps.add(record.step)
        if self.measured is None and not record.diverged:
            self.measured = record
            self.steps.add(record.step)

    def check(self, record: CheckpointRecord) -> None:
        if self.first is None:
            return
        domains = self.first.domains
        if tuple(record.domains) != tuple(domains):
            odd = sorted(set(record.domains).symmetric_difference(domains))
            raise InputError(
                f"Expected domains {', '.join(domains)} at every step, but step {record.step} "
                f"differs in {', '.join(odd)}: evaluate the same domains at every checkpoint.",
                code="differs",
            )
        for name, domain in record.domains.items():
            self._check_same_examples(record.step, name, domain, self.first)
        before = self.measured or record
        if not record.diverged and set(record.metrics) != set(before.metrics):
            odd = sorted(set(record.metrics).symmetric_difference(before.metrics))
            raise InputError(
                f"Expected the metrics {', '.join(before.metrics)} at every step, as at step "
                f"{before.step}, but step {record.step} differs in {', '.join(odd)}: measure "
                "every checkpoint alike.",
                code="differs",
            )

    def _check_same_examples(
        self, step: int, name: str, domain: DomainRecord, first: CheckpointRecord
    ) -> None:
        grouped = first.domains[name].groups is not None
        if (domain.groups is not None) != grouped:
            have, lack = (first.step, step) if grouped else (step, first.step)
            raise InputError(
                f"Expected groups of the examples of domain {name!r} at every step or at none, but "
                f"step {have} has them and step {lack} has none: save the same `groups` with every "
                "checkpoint, or leave them out.",
                code="differs",
            )
        for fact, what in _FACTS.items():
            value = getattr(domain, fact)
            known, before = self.facts.get((name, fact), (value, step))
            if value is not None and value != known:
                raise InputError(
                    f"The {what} of domain {name!r} at step {step} differ from those at step "
                    f"{before}: evaluate every checkpoint on the same examples, in the same order, "
                    "also after a resume.",
                    code="differs",
                )


def facts_of(records: Iterable[CheckpointRecord]) -> dict[str, Any]:
    """Arguments of ``Trajectory`` that follow from records in the order of their steps."""
    rows = list(records)
    if not rows:
        raise InputError("Expected outputs of at least one checkpoint, but got none.", code="empty")
    domains = tuple(rows[0].domains)
    measured = [row for row in rows if not row.diverged]
    metrics = measured[0].metrics if measured else ("accuracy",)

    def column(row: CheckpointRecord, metric: str) -> list[float]:
        return [row.domains[name].values.get(metric, np.nan) for name in domains]

    counts = [{row.domains[name].n for row in measured or rows} for name in domains]
    correct = [[row.domains[name].correct for name in domains] for row in rows]
    known = all(None not in n for n in counts)
    exact = known and all(
        None not in row for row, r in zip(correct, rows, strict=True) if not r.diverged
    )
    return {
        "steps": np.array([row.step for row in rows]),
        "domains": domains,
        "values": {m: np.array([column(row, m) for row in rows]) for m in metrics},
        "counts": np.array([n.pop() for n in counts]) if known else None,
        "correct": np.array([[c or 0 for c in row] for row in correct]) if exact else None,
        "diverged": np.array([row.diverged for row in rows]),
        "notes": tuple(dict.fromkeys(note for row in rows for note in row.notes)),
    }
