"""One value per example, for statistics that compare or resample examples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from checkwise.metrics import inputs
from checkwise.metrics.sums import Batch

Array = np.ndarray[Any, np.dtype[Any]]
_LEAST = float(np.finfo(np.float32).smallest_subnormal)


@dataclass(frozen=True, eq=False)
class PerExample:
    """Arrays [n] in the order of the input.

    Attributes:
        nll: -log p[y].
        brier: sum_c (p_c - [y = c])^2.
        confidence: largest probability.
        predicted: the first class that attains it.
        correct: whether that is the label.
    """

    nll: Array
    brier: Array
    confidence: Array
    predicted: Array
    correct: Array


class Outcomes(NamedTuple):
    """Whether each of n examples was predicted correctly, and its −log p[y]; filled in place."""

    correct: Array
    nll: Array

    @classmethod
    def of(cls, n: int) -> Outcomes:
        """Room for n examples."""
        return cls(np.zeros(n, dtype=np.bool_), np.zeros(n))

    def rows(self, start: int, end: int) -> Outcomes:
        """A view of some of them."""
        return Outcomes(self.correct[start:end], self.nll[start:end])


class CountedExamples(NamedTuple):
    """Whether each example was predicted correctly, and its label, in the order they came.

    Where they were asked for, also −log p of the label from full precision, and the logits in half
    precision; of probabilities their logarithms.
    """

    correct: Array
    labels: Array
    nll: Array | None = None
    logits: Array | None = None

    @classmethod
    def joined(cls, parts: Sequence[CountedExamples]) -> CountedExamples:
        """Those of several parts, one after the other."""
        fields: Any = zip(*parts, strict=True)
        joined: Any = [None if part[0] is None else np.concatenate(part) for part in fields]
        return cls(*joined)

    def at(self, rows: Any) -> CountedExamples:
        """Some of them, or all in another order."""
        chosen: Any = [None if part is None else part[rows] for part in self]
        return CountedExamples(*chosen)


def half_logits(predictions: inputs.Predictions) -> Array:
    """Logits, or logarithms of probabilities, in half precision.

    In single precision where a value is beyond 65504, the largest half one. A probability of 0
    counts as the smallest positive single-precision number, so that it can be scaled.
    """
    parts = []
    for _, rows, _ in predictions.blocks():
        if predictions.kind == "probs":
            rows = np.log(np.maximum(rows, _LEAST))
        parts.append(halved(rows))
    return np.concatenate(parts)


def halved(values: Array) -> Array:
    """The values in half precision, or in single precision where one is beyond 65504."""
    with np.errstate(over="ignore"):
        small = values.astype(np.float16)
    fits = np.array_equal(np.isfinite(small), np.isfinite(values))
    return small if fits else values.astype(np.float32)


def per_example(*, logits: Any = None, probs: Any = None, labels: Any) -> PerExample:
    """Negative log-likelihood, Brier score, confidence and correctness of every example.

    Args:
        logits: [n, C] raw scores, or
        probs: [n, C] probabilities.
        labels: [n] integers from 0 to C - 1.

    Example:
        >>> rows = per_example(probs=[[0.75, 0.25], [0.5, 0.5]], labels=[0, 1])
        >>> rows.brier.tolist(), rows.correct.tolist()
        ([0.125, 0.5], [True, False])
    """
    predictions = inputs.read(logits=logits, probs=probs, labels=labels)
    parts = []
    for batch, p in measured(predictions):
        brier = batch.brier(p)
        parts.append((batch.nll, brier, batch.confidence, batch.predicted, batch.correct))
    return PerExample(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def measured(predictions: inputs.Predictions) -> Iterator[tuple[Batch, Array]]:
    """Examples a part at a time, and their probabilities [R, C] with 0 in place of the largest."""
    for start, values, labels in predictions.blocks():
        batch = Batch(values, labels, predictions.tolerance)
        if batch.bad >= 0:
            predictions.refuse(start + batch.bad, values[batch.bad], int(labels[batch.bad]))
        p = np.empty(values.shape)
        batch.fill(0, p)
        yield batch, p
