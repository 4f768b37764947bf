"""The metrics of a validation set while its batches pass, without its padding.

A sampler that spreads a set over processes gives all of them the same number of examples, so it
repeats some. The repeats are the last rows of a process and are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from checkwise.errors import InputError
from checkwise.metrics import BANDWIDTH, BINS, Accumulator, Report, binary, to_numpy
from checkwise.records import as_names, divide

Kind = Literal["logits", "probs"]


def sets_to_read(
    names: Sequence[str],
    held_out: str | Iterable[str] | None,
    sources: str | Iterable[str] | None,
    *,
    where: str = "the validation sets",
) -> tuple[str, ...]:
    """The names of the sets to choose by; the others are held out, and must not be read."""
    told = {"held_out": as_names(held_out), "sources": as_names(sources)}
    chosen = divide(names, where=where, **told).sources
    return tuple(name for name in names if name in chosen)


@dataclass
class ValidationSums:
    """One validation set, as far as this process has seen it.

    ``own_rows`` are those of this process before the padding; None where nothing is padded. With
    ``examples`` it keeps which were predicted correctly, and the labels: a set whose examples
    always come in the same order is known again by them.
    """

    name: str
    bins: int = BINS
    bandwidth: float = BANDWIDTH
    own_rows: int | None = None
    rows: int = 0
    counted: int = 0
    diverged: bool = False
    accumulator: Accumulator | None = None
    kind: Kind = "logits"
    examples: bool = False
    logits: bool = False

    def update(self, logits: Any, labels: Any) -> None:
        """Add a batch: logits or probabilities [n, C] and labels [n]; of two classes, also [n]."""
        shapes = [tuple(getattr(array, "shape", ())) for array in (logits, labels)]
        if not all(shapes) or shapes[0][0] != shapes[1][0]:
            raise InputError(
                f"Expected logits [n, C] and labels [n] of the validation set {self.name!r}, but "
                f"got shapes {list(shapes[0])} and {list(shapes[1])}: return those of one batch."
            )
        rows = int(shapes[0][0])
        room = rows if self.own_rows is None else max(0, self.own_rows - self.rows)
        self.rows += rows
        if self.own_rows is not None and self.rows > self.own_rows + 1:  # padded by at most one
            raise InputError(
                f"Expected one row of logits per example of the validation set {self.name!r}, but "
                f"got more than its {self.own_rows} in this process: behind a DistributedSampler, "
                "repeats could not be told from them; return one row per example."
            )
        real = min(rows, room)
        if real == 0:
            return
        self.counted += real
        values, known = binary(to_numpy(logits[:real], self.kind), labels[:real], self.kind)
        if np.isnan(values).any() or np.isposinf(values).any():
            self.diverged = True
        if self.diverged:
            return
        try:
            if self.accumulator is None:
                self.accumulator = self._empty(values.shape[-1])
            self.accumulator.update(**{self.kind: values}, labels=known)
        except InputError as error:
            raise InputError(f"{error} (validation set {self.name!r})", code=error.code) from None

    def _empty(self, classes: int) -> Accumulator:
        return Accumulator(
            classes=classes,
            bins=self.bins,
            bandwidth=self.bandwidth,
            examples=self.examples,
            logits=self.logits,
        )

    def entry(self) -> Report | dict[str, float]:
        """What ``LiveSelector.add`` takes; a checkpoint that diverged has no accuracy."""
        if self.diverged:
            return {"accuracy": float("nan"), "n": self.counted}
        if self.accumulator is None:
            raise InputError(
                f"Expected at least one example of the validation set {self.name!r}, but got none: "
                "check its dataloader.",
                code="empty",
            )
        return self.accumulator.result()


def merged(parts: Sequence[ValidationSums]) -> ValidationSums:
    """One set from its parts, added in this order so that every process gets the same numbers."""
    whole = replace(parts[0], own_rows=None, rows=0, counted=0, diverged=False, accumulator=None)
    for part in parts:
        whole.rows += part.rows
        whole.counted += part.counted
        whole.diverged |= part.diverged
        if part.accumulator is None:
            continue
        if whole.accumulator is None:
            whole.accumulator = whole._empty(part.accumulator.classes)
        whole.accumulator.merge(part.accumulator)
    spread = all(part.own_rows is not None for part in parts)  # by a sampler
    if spread and whole.accumulator is not None and not whole.diverged:
        places = [rank + len(parts) * np.arange(part.counted) for rank, part in enumerate(parts)]
        whole.accumulator.put_in_order(np.argsort(np.concatenate(places)))
    return whole


def own_rows(loader: Any) -> int | None:
    """Rows that a loader gives this process before it repeats any; None if it does not say.

    ``DistributedSampler`` gives rank r of w processes the rows r, r + w, r + 2w … and goes on
    behind the end of the set until all have equally many.
    """
    from torch.utils.data.distributed import DistributedSampler

    for sampler in _samplers(loader):
        if isinstance(sampler, DistributedSampler):
            examples = len(sampler.dataset)  # type: ignore[arg-type]
            return len(range(sampler.rank, examples, sampler.num_replicas))
    return None


def in_order(loader: Any) -> bool:
    """Whether a loader is known to give its examples in the order of their set, every time."""
    from torch.utils.data import SequentialSampler
    from torch.utils.data.distributed import DistributedSampler

    return any(
        isinstance(sampler, SequentialSampler)
        or (isinstance(sampler, DistributedSampler) and not sampler.shuffle)
        for sampler in _samplers(loader)
    )


def _samplers(loader: Any) -> Iterator[Any]:
    """The samplers of a loader, also behind batches that are spread over processes."""
    yield getattr(loader, "sampler", None)
    batches = getattr(loader, "batch_sampler", None)
    while batches is not None:
        yield batches
        yield getattr(batches, "sampler", None)
        batches = getattr(batches, "batch_sampler", None)


def measured_together(sums: Sequence[ValidationSums], processes: int) -> list[ValidationSums]:
    """The sets as all processes have seen them together, in the order of their ranks."""
    if processes == 1:
        return list(sums)
    import torch.distributed as distributed

    if not distributed.is_available() or not distributed.is_initialized():
        raise InputError(
            "Expected processes that torch.distributed connects, but it is not initialised: use a "
            "strategy such as 'ddp', or one process.",
            code="system",
        )
    everywhere: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(everywhere, list(sums))
    return [merged(parts) for parts in zip(*everywhere, strict=True)]
