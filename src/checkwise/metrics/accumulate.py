"""Metrics of a stream: batch by batch, and across processes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from checkwise.errors import InputError
from checkwise.metrics import inputs
from checkwise.metrics.examples import CountedExamples, Outcomes, half_logits
from checkwise.metrics.gaussians import new_grid
from checkwise.metrics.report import Report, summarise
from checkwise.metrics.settings import BANDWIDTH, BINS, check_bins, whole
from checkwise.metrics.sums import Array, Batch, Sums, add, new_sums, single_block

MOST_CLASSES = 1_000_000  # memory grows with bins × classes


class Accumulator:
    """Sums that grow with every batch and give the metrics of all of them.

    Memory depends on the number of classes and bins, not of examples. Results do not depend on how
    examples were batched: counts exactly, the others up to rounding (1e-12). Merged ones are those
    of the whole to 1e-12 as well, or to 5e-9 (2e-7 where rows are alike) where logits come in
    single precision, because they are added in blocks of a fixed number of rows; the rows of a
    block that is not yet full are kept until it is. Can be pickled; not safe to update from two
    threads at once.

    Args:
        classes: number of classes C, at least 2.
        bins: number of bins B of the calibration errors, at least 2.
        bandwidth: bandwidth h of the soft bins.
        examples: keep which examples were predicted correctly, in the order they come; memory then
            grows by 9 bytes an example.
        logits: also keep their NLL, and their logits in half precision; memory then grows by 17
            bytes and 2 more per class.

    Example:
        >>> acc = Accumulator(classes=2)
        >>> acc.update(logits=[[2.0, 0.0], [0.0, 1.0]], labels=[0, 1])
        >>> acc.update(logits=[[1.5, 0.5]], labels=[1])
        >>> result = acc.result()
        >>> result.n, result.correct, round(result.nll, 4)
        (3, 2, 0.5845)
    """

    def __init__(
        self,
        *,
        classes: int,
        bins: int = BINS,
        bandwidth: float = BANDWIDTH,
        examples: bool = False,
        logits: bool = False,
    ) -> None:
        self.classes = whole(classes, "classes", least=2, most=MOST_CLASSES)
        self.bins, self.bandwidth = check_bins(bins, bandwidth)
        self.n = 0
        self._sums: Sums | None = None
        self._waiting: tuple[Array, Array] | None = None  # logits of less than a block, labels
        self._single = False  # whether a block was added in single precision
        self._examples: list[CountedExamples] | None = [] if examples or logits else None
        self._logits = logits

    def update(self, *, logits: Any = None, probs: Any = None, labels: Any) -> None:
        """Add a batch: values [n, C] and labels [n]. A batch that is refused leaves no trace."""
        predictions = inputs.read(logits=logits, probs=probs, labels=labels, classes=self.classes)
        self.add(predictions)

    def add(
        self,
        predictions: inputs.Predictions,
        outcomes: Outcomes | None = None,
        *,
        last: bool = False,
    ) -> None:
        """Add predictions whose shapes and labels were checked; fills ``outcomes`` on the way.

        Where a value per example is wanted, all are computed in double precision. After the
        ``last`` predictions no rows wait for a whole block.
        """
        n, logits = len(predictions.labels), predictions.kind == "logits"
        means_alone = outcomes is None and self._examples is None
        block = single_block(self.classes) if logits and means_alone else 0
        if last and n < block:
            block = 0
        outcomes = outcomes or Outcomes.of(0 if self._examples is None else n)
        sums = self._sums or new_sums(self.classes, self.bins, self.bandwidth)
        waiting, in_single = self._waiting, self._single
        grid = new_grid(self.bins, self.bandwidth)
        for start, values, labels in predictions.blocks(block or 1):
            out = outcomes.rows(start, start + len(labels))
            single = block > 0 and values.dtype == np.float32
            if single and waiting is not None:
                start -= len(waiting[1])
                values = np.concatenate([waiting[0], values])
                labels = np.concatenate([waiting[1], labels])
            whole = len(labels) // block * block if single and not last else len(labels)
            # A part is looked at before it is added; before a further one, go on with a copy.
            if self._sums is sums and 0 < whole < max(n, len(labels)):
                sums = Sums(*(part.copy() for part in sums))
            kind = np.float32 if single else np.float64
            bad = add(values[:whole], labels[:whole], predictions.tolerance, grid, sums, out, kind)
            if single and not last and bad < 0:
                waiting = values[whole:].copy(), labels[whole:].copy()
                bad = Batch(*waiting, predictions.tolerance).bad
                bad += whole * (bad >= 0)
            if bad >= 0:
                predictions.refuse(start + bad, values[bad], int(labels[bad]))
            in_single |= single and whole > 0
        self._single = in_single
        self._waiting = waiting
        self._sums = sums
        self.n += n
        if self._examples is not None:
            further = (outcomes.nll, half_logits(predictions)) if self._logits else ()
            kept = CountedExamples(outcomes.correct, predictions.labels.copy(), *further)
            self._examples.append(kept)

    def merge(self, other: Accumulator) -> None:
        """Add everything that `other` has seen; `other` is left as it is."""
        ours = (self.classes, self.bins, self.bandwidth)
        others = (other.classes, other.bins, other.bandwidth)
        if ours != others:
            raise InputError(
                f"Expected an accumulator with (classes, bins, bandwidth) = {ours}, but got "
                f"{others}. Merge only what was measured alike.",
                code="differs",
            )
        if other._sums is None:
            return
        if self._examples is not None:
            self._examples.append(other.examples)
        if self._sums is None:
            self._sums = new_sums(self.classes, self.bins, self.bandwidth)
        for mine, theirs in zip(self._sums, other._sums, strict=True):
            mine += theirs
        self.n += other.n
        self._single |= other._single
        if other._waiting is not None:
            z, labels = other._waiting
            self.n -= len(labels)
            self.add(inputs.Predictions(z, "logits", labels, self.classes, -1.0))

    @property
    def examples(self) -> CountedExamples:
        """Which examples were predicted correctly, in the order they came."""
        if not self._examples:
            raise InputError(
                "Expected examples that were kept, but got none: make it with "
                "Accumulator(…, examples=True), and call update().",
                code="missing",
            )
        return CountedExamples.joined(self._examples)

    def put_in_order(self, order: Any) -> None:
        """Put the examples that were kept into another order; sums do not depend on it."""
        if self._examples:
            self._examples = [self.examples.at(order)]

    @property
    def sums(self) -> Sums:
        """What the metrics follow from; those of several accumulators may be added."""
        if self._sums is None:
            raise InputError(
                "Expected at least one example, but got none. Call update() first.", code="empty"
            )
        if self._waiting is None:
            return self._sums
        whole = Sums(*(part.copy() for part in self._sums))
        kind = np.float32 if self._single else np.float64
        add(*self._waiting, -1.0, new_grid(self.bins, self.bandwidth), whole, Outcomes.of(0), kind)
        return whole

    def result(self) -> Report:
        """Metrics of everything added so far."""
        report = summarise(self.sums, bins=self.bins, bandwidth=self.bandwidth)
        return report if self._examples is None else replace(report, examples=self.examples)

    def __repr__(self) -> str:
        return (
            f"Accumulator(classes={self.classes}, bins={self.bins}, "
            f"bandwidth={self.bandwidth}, n={self.n})"
        )
