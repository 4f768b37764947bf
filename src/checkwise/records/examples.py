"""What every validation example said at every checkpoint: source validation only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.metrics import to_numpy
from checkwise.words import shown

if TYPE_CHECKING:
    from checkwise.metrics import CountedExamples
    from checkwise.records.checkpoint_record import CheckpointRecord
    from checkwise.records.trajectory import Trajectory

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
_NONE: IntArray = np.empty(0, dtype=np.int64)
LogitsAt: TypeAlias = Callable[[int], Mapping[str, tuple[Any, Any]]]


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The arrays of :class:`Examples`, one entry per domain."""

    correct: tuple[BoolArray, ...]
    labels: tuple[IntArray, ...] | None = None
    nll: tuple[FloatArray, ...] | None = None
    groups: tuple[IntArray, ...] | None = None
    diverged: BoolArray | None = None

    @classmethod
    def stacked(
        cls,
        domains: Sequence[str],
        rows: Sequence[Mapping[str, CountedExamples] | None],
        *,
        labels: Mapping[str, IntArray] | None = None,
        groups: Mapping[str, IntArray],
    ) -> Outcomes:
        """Those of checkpoints in their order, by domain; None where one diverged.

        ``labels`` are those of the first checkpoint, unless they are given.
        """
        first = next(row for row in rows if row is not None)
        labels = {name: one.labels for name, one in first.items()} if labels is None else labels

        def stack(name: str, part: int, blank: Any) -> NDArray[Any]:
            absent = np.full(len(first[name].correct), blank)
            said: list[Any] = [absent if row is None else row[name][part] for row in rows]
            return np.stack(said)

        return cls(
            correct=tuple(stack(name, 0, False) for name in domains),
            labels=tuple(labels[n] for n in domains) if labels.keys() >= {*domains} else None,
            nll=tuple(stack(name, 2, np.nan) for name in domains)
            if all(one.nll is not None for row in rows if row for one in row.values())
            else None,
            groups=tuple(groups[n] for n in domains) if groups.keys() >= {*domains} else None,
            diverged=np.array([row is None for row in rows]),
        )

    def at(self, rows: BoolArray) -> Outcomes:
        """Some of the checkpoints."""
        return replace(
            self,
            correct=tuple(one[rows] for one in self.correct),
            nll=None if self.nll is None else tuple(one[rows] for one in self.nll),
            diverged=None if self.diverged is None else self.diverged[rows],
        )


class Examples:
    """What every validation example said at every checkpoint of a run.

    There is no place for a target: readers and recorders make it of source validation.

    Args:
        domains, steps: those of the trajectory, in its order.
        outcomes: the arrays, or a function that reads them when they are first asked for.
        logits: reads the logits and labels of a step by domain, where they were saved.
        evaluated: the same at every checkpoint that was evaluated, where some of them cannot be
            chosen any more.

    Attributes:
        correct: per domain [T, n], from full precision; False where a checkpoint diverged.
        labels: per domain [n], where known.
        nll: per domain [T, n] in full precision, where known; NaN where a checkpoint diverged.
        groups: per domain [n], the independent unit (site, patient, burst) of each example; None
            where every example is one by itself.
        diverged: which checkpoints diverged, [T].
    """

    def __init__(
        self,
        *,
        domains: Sequence[str],
        steps: IntArray,
        outcomes: Outcomes | Callable[[], Outcomes],
        logits: LogitsAt | None = None,
        evaluated: Examples | None = None,
    ) -> None:
        self.domains = tuple(domains)
        self.steps = steps
        self.evaluated = evaluated or self
        self._outcomes = outcomes
        self._logits = logits

    def __repr__(self) -> str:
        return f"<Examples of {', '.join(self.domains)} at {len(self.steps)} steps>"

    @cached_property
    def _arrays(self) -> Outcomes:
        return self._outcomes() if callable(self._outcomes) else self._outcomes

    @property
    def correct(self) -> tuple[BoolArray, ...]:
        """Whether each example was predicted correctly, per domain [T, n]."""
        return self._arrays.correct

    @property
    def labels(self) -> tuple[IntArray, ...] | None:
        """The labels, per domain [n]."""
        return self._arrays.labels

    @property
    def nll(self) -> tuple[FloatArray, ...] | None:
        """−log p of each label, per domain [T, n]."""
        return self._arrays.nll

    @property
    def groups(self) -> tuple[IntArray, ...] | None:
        """The independent unit of each example, per domain [n]."""
        return self._arrays.groups

    @property
    def diverged(self) -> BoolArray:
        """Which checkpoints diverged, [T]."""
        lost = self._arrays.diverged
        return np.zeros(len(self.steps), dtype=bool) if lost is None else lost

    @property
    def has_logits(self) -> bool:
        """Whether logits can be read."""
        return self._logits is not None

    def logits(self, step: int) -> dict[str, tuple[Any, Any]]:
        """The logits and labels of a step by domain, read now."""
        if self._logits is None:
            raise InputError(
                "Expected the logits of every validation example, but this run carries none: "
                "select from a predictions folder, or save source logits while training.",
                code="missing",
            )
        saved = self._logits(step)
        return {name: saved[name] for name in self.domains}

    def _with(self, evaluated: Examples | None, **changed: Any) -> Examples:
        facts = {
            "domains": self.domains,
            "steps": self.steps,
            "outcomes": self._outcomes,
            "logits": self._logits,
        }
        return Examples(**{**facts, **changed}, evaluated=evaluated)

    @property
    def _others(self) -> Examples | None:
        return None if self.evaluated is self else self.evaluated

    def subset(self, steps: Iterable[int]) -> Examples:
        """The same examples at some of the checkpoints."""
        rows = np.isin(self.steps, list(steps))
        if rows.all():
            return self
        return self._with(
            self.evaluated, steps=self.steps[rows], outcomes=lambda: self._arrays.at(rows)
        )

    def grouped(self, groups: Mapping[str, Any] | None) -> Examples:
        """The same examples with other independent units, by domain."""

        def outcomes() -> Outcomes:
            counts = [one.shape[1] for one in self.correct]
            named = None if groups is None else _group_numbers(groups, self.domains, counts)
            return replace(self._arrays, groups=named)

        others = self._others
        return self._with(
            others and others.grouped(groups),
            outcomes=outcomes if callable(self._outcomes) else outcomes(),
        )

    def with_logits(self, logits: LogitsAt) -> Examples:
        """The same examples, with a way to read their logits."""
        others = self._others
        return self._with(others and others.with_logits(logits), logits=logits)

    def of(self, run: Trajectory) -> Examples:
        """The examples as part of a run: checked against its counts as soon as they are read."""
        if self.domains != run.domains or not np.array_equal(self.steps, run.steps):
            raise InputError(
                f"Expected examples of the domains {', '.join(run.domains)} at the "
                f"{len(run.steps)} steps of the run, but got {', '.join(self.domains)} at "
                f"{len(self.steps)} steps: take those of the same run.",
                code="differs",
            )
        measured = _Measured(run.domains, run.steps, run.counts, run.correct, run.diverged)
        # What is there is checked now, so that the error comes where the mistake is.
        outcomes: Outcomes | Callable[[], Outcomes] = (
            (lambda: measured.fitting(self._arrays))
            if callable(self._outcomes)
            else measured.fitting(self._outcomes)
        )
        return self._with(self._others, outcomes=outcomes)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of correctness and groups; the order of domains does not matter."""
        import hashlib  # slow to import

        order = sorted(range(len(self.domains)), key=lambda e: self.domains[e])
        sha = hashlib.sha256(repr([self.domains[e] for e in order]).encode())
        sha.update(self.steps.tobytes())
        for e in order:
            sha.update(repr(self.correct[e].shape).encode())
            sha.update(np.packbits(self.correct[e]).tobytes())
            if self.groups is not None:
                sha.update(self.groups[e].tobytes())
        return sha.hexdigest()


def groups_of(run: Trajectory) -> dict[str, IntArray] | None:
    """The independent unit of every example by domain; None where every example is its own."""
    groups = None if run.examples is None else run.examples.groups
    return None if groups is None else dict(zip(run.domains, groups, strict=True))


def group_numbers(raw: Any, n: int) -> IntArray:
    """The groups of n examples, by any names, as numbers from 0 in the order of first examples."""
    array = np.asarray(raw) if isinstance(raw, list | tuple) else to_numpy(raw, "groups")
    if array.shape != (n,) or array.dtype.kind not in "iuUSb":
        raise InputError(
            f"Expected {n} groups, one per example, as names or whole numbers, but got "
            f"{array.dtype} of shape {list(array.shape)}: give them in the order of the examples."
        )
    _, first, codes = np.unique(array, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return np.asarray(rank[codes.reshape(-1)], dtype=np.int64)


def _group_numbers(
    groups: Mapping[str, Any], domains: Sequence[str], counts: Sequence[int]
) -> tuple[IntArray, ...]:
    if not isinstance(groups, Mapping):
        raise InputError(
            f"Expected groups as {{domain: one group per example}}, but got {shown(groups)}."
        )
    absent = [name for name in domains if name not in groups]
    if absent:
        raise InputError(
            f"Expected the groups of every domain, but got none of {', '.join(absent)}: give "
            "each example its site, patient or burst, or a number of its own.",
            code="missing",
        )
    numbers: list[IntArray] = []
    for name, n in zip(domains, counts, strict=True):
        try:
            numbers.append(group_numbers(groups[name], n))
        except InputError as error:
            raise InputError(f"{error} (domain {name!r})", code=error.code) from None
    return tuple(numbers)


def examples_of(
    records: Sequence[CheckpointRecord],
    *,
    labels: Mapping[str, IntArray],
    groups: Mapping[str, IntArray],
) -> Examples | None:
    """The examples of records in the order of their steps; None where they were not kept."""
    from checkwise.metrics import CountedExamples  # which a log has not

    rows: list[dict[str, CountedExamples] | None] = []
    for record in records:
        hits = {n: (d.hits, d.losses) for n, d in record.domains.items() if d.hits is not None}
        if not record.diverged and len(hits) < len(record.domains):
            return None
        counted = {n: CountedExamples(hit, _NONE, nll) for n, (hit, nll) in hits.items()}
        rows.append(None if record.diverged else counted)
    if not any(rows):
        return None
    domains = tuple(records[0].domains)
    if absent := [name for name in domains if name not in groups] * any(
        n in groups for n in domains
    ):
        raise InputError(
            f"Expected groups of every validation set or of none, but {absent[0]!r} has none: save "
            "`groups` with each, or with none.",
            code="differs",
        )
    outcomes = Outcomes.stacked(domains, rows, labels=labels, groups=groups)
    steps = np.array([row.step for row in records])
    return Examples(domains=domains, steps=steps, outcomes=outcomes)


class _Measured(NamedTuple):
    """What a run says about its examples."""

    domains: tuple[str, ...]
    steps: IntArray
    counts: IntArray | None
    correct: IntArray | None
    diverged: BoolArray

    def fitting(self, arrays: Outcomes) -> Outcomes:
        """The arrays without what diverged checkpoints said; refused where they do not fit."""
        lost = self.diverged[:, None]
        correct = tuple(_read_only(one & ~lost) for one in arrays.correct)
        for e, (domain, one) in enumerate(zip(self.domains, correct, strict=True)):
            if self.counts is not None and one.shape[1] != self.counts[e]:
                raise InputError(
                    f"Expected {self.counts[e]} examples of domain {domain!r}, but got "
                    f"{one.shape[1]}: they are of another run.",
                    code="differs",
                )
            counted = one.sum(axis=1)
            wanted = counted if self.correct is None else self.correct[:, e]
            for t in np.flatnonzero((counted != wanted) & ~self.diverged)[:1]:
                raise InputError(
                    f"Expected {wanted[t]} correct examples of domain {domain!r} at step "
                    f"{self.steps[t]}, but got {counted[t]}: the saved examples are not those "
                    "that were measured; save them again.",
                    code="differs",
                )
        nll = arrays.nll and tuple(_read_only(np.where(lost, np.nan, one)) for one in arrays.nll)
        return replace(arrays, correct=correct, nll=nll, diverged=self.diverged)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array
