"""Examples as tensors, and deterministic evaluation: the same rows in the same order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from checkwise import metrics
from checkwise.metrics import NAMES
from checkwise.store import GROUPS, OWN
from checkwise.study.data import DomainDataset, augment
from checkwise.study.train.algorithms import Algorithm, Minibatch
from checkwise.study.train.backbone import Backbone
from checkwise.study.train.config import RunConfig

Role: TypeAlias = Literal["source", "source_groups", "source_in", "heldout"]


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of one domain that are evaluated together: a split, or ``all`` of a place.

    ``domain`` is its name in results, ``index`` the domain that the rows belong to. ``groups`` says
    which site or patient each example comes from, where the data set names them.
    """

    role: Role
    domain: str
    index: int
    rows: Indices
    labels: NDArray[np.int64]
    split: Literal["in", "all"] = "in"
    groups: NDArray[np.int64] | None = None


@dataclass(frozen=True, eq=False)
class Outputs:
    """Logits [n, C] of every part at one record."""

    parts: tuple[Part, ...]
    logits: tuple[NDArray[np.float32], ...]

    def diverged(self, role: Role, domain: str | None = None) -> bool:
        """Whether a logit of the parts with a role (or of one of its domains) is not finite."""
        return not all(
            np.isfinite(z).all() for name, (z, _) in self.of(role).items() if domain in (None, name)
        )

    def of(self, role: Role) -> dict[str, tuple[NDArray[np.float32], NDArray[np.int64]]]:
        return {
            part.domain: (z, part.labels)
            for part, z in zip(self.parts, self.logits, strict=True)
            if part.role == role
        }

    def groups(self, role: Role) -> dict[str, NDArray[np.int64]]:
        return {p.domain: p.groups for p in self.parts if p.role == role and p.groups is not None}


class Evaluator:
    """Runs a network over all parts, in as few calls as the rows allow.

    Rows that fit in memory are gathered once for the whole run; others are read from their
    memory-mapped file at every record, but never decoded again.
    """

    def __init__(self, inputs: Inputs, parts: Sequence[Part]) -> None:
        self._inputs = inputs
        self._parts = tuple(parts)
        self._gathered: Tensor | None = None
        if inputs.in_memory:
            self._gathered = torch.cat([inputs.rows(part.index, part.rows) for part in parts])

    def __call__(self, algorithm: Algorithm) -> Outputs:
        size = self._inputs.rows_at_once
        logits: Sequence[Tensor]
        with torch.inference_mode():
            if self._gathered is not None:
                chunks = torch.split(self._gathered, size)
                whole = torch.cat([algorithm.predict(chunk) for chunk in chunks])
                logits = torch.split_with_sizes(whole, [len(part.rows) for part in self._parts])
            else:
                logits = [torch.cat([*self._streamed(algorithm, part)]) for part in self._parts]
        return Outputs(self._parts, tuple(z.float().cpu().numpy() for z in logits))

    def _streamed(self, algorithm: Algorithm, part: Part) -> Iterator[Tensor]:
        size = self._inputs.rows_at_once
        for start in range(0, len(part.rows), size):
            rows = part.rows[start : start + size]
            yield algorithm.predict(self._inputs.rows(part.index, rows))


def validation_roles(config: RunConfig) -> tuple[Role, ...]:
    """The validation sets of a run: its own, and whole groups where it has both."""
    return ("source", "source_groups") if config.split_by == "both" else ("source",)


def source_entry(outputs: Outputs, config: RunConfig) -> dict[str, Any]:
    """The results of one model in a line of ``source.jsonl``: ``diverged``, ``domains``, ``in``.

    Where a run has two validation sets, ``groups`` holds the results on whole groups.
    """

    def measured(role: Role, diverged: bool) -> dict[str, dict[str, Any]]:
        parts = outputs.of(role).items()
        return {domain: _entry(z, y, diverged, config) for domain, (z, y) in parts}

    roles = validation_roles(config)
    diverged = any(outputs.diverged(role) for role in roles)
    entry: dict[str, Any] = {"diverged": diverged}
    for role, name in zip(roles, (OWN, GROUPS), strict=False):
        entry[name] = measured(role, diverged)
    if config.source_in:
        entry["in"] = measured("source_in", outputs.diverged("source_in"))
    return entry


def heldout_entry(outputs: Outputs, domain: str, config: RunConfig) -> dict[str, Any]:
    """The results of one model in a line of ``heldout/<domain>.jsonl``."""
    diverged = outputs.diverged("heldout", domain)
    part = next(p for p in outputs.parts if p.role == "heldout" and p.domain == domain)
    entry = _entry(*outputs.of("heldout")[domain], diverged, config)
    return {"diverged": diverged, "split": part.split, **entry}


def _entry(
    logits: NDArray[np.float32], labels: NDArray[np.int64], diverged: bool, config: RunConfig
) -> dict[str, Any]:
    """Every metric of one part, a plugin's last; null where the checkpoint diverged."""
    if diverged:
        names = (*NAMES, *config.metrics)
        return {"n": len(labels), "correct": None, **dict.fromkeys(names)}
    bins, bandwidth = config.bins, config.bandwidth
    report = metrics.evaluate(logits=logits, labels=labels, bins=bins, bandwidth=bandwidth)
    values: Mapping[str, float] = report.values()
    if config.metrics:
        values = {**values, **metrics.evaluate_registered(logits=logits, labels=labels)}
    named = {name: float(values[name]) for name in (*NAMES, *config.metrics)}
    return {"n": int(report.n), "correct": int(report.correct), **named}


Indices = NDArray[np.int64]


class Inputs:
    """A data set as the network takes it; one per process, shared by its runs."""

    rows_at_once = 128
    in_memory = False

    def __init__(self, dataset: DomainDataset, device: str) -> None:
        self._dataset = dataset
        self._device = device

    def minibatches(
        self, domains: Sequence[int], rows: Sequence[Indices], *, random: Sequence[int]
    ) -> list[Minibatch]:
        """One minibatch per domain; ``random`` seeds what is random about it."""
        parts = list(zip(domains, rows, strict=True))
        return [(self.rows(*part), self._labels(*part)) for part in parts]

    def rows(self, domain: int, rows: Indices) -> Tensor:
        """Examples for evaluation: nothing random."""
        return torch.from_numpy(self._dataset.rows(domain, rows)).to(self._device).float()

    def _labels(self, domain: int, rows: Indices) -> Tensor:
        return torch.from_numpy(self._dataset.y[domain][rows]).to(self._device)


class MemoryInputs(Inputs):
    """Features or digits, converted to float32 once."""

    rows_at_once = 1024
    in_memory = True

    def __init__(self, dataset: DomainDataset, device: str) -> None:
        super().__init__(dataset, device)
        self._starts = np.cumsum([0, *dataset.sizes])
        parts = [np.array(x, dtype=np.float32) for x in dataset.x]
        if dataset.kind != "features":
            parts = [(x / np.float32(255)).transpose(0, 3, 1, 2) for x in parts]
        self._x = torch.from_numpy(np.ascontiguousarray(np.concatenate(parts))).to(device)
        self._y = torch.from_numpy(np.concatenate(dataset.y)).to(device)

    def minibatches(
        self, domains: Sequence[int], rows: Sequence[Indices], *, random: Sequence[int]
    ) -> list[Minibatch]:
        at = [part + self._starts[domain] for domain, part in zip(domains, rows, strict=True)]
        index = torch.from_numpy(np.concatenate(at)).to(self._device)
        sizes = [len(part) for part in rows]
        x = torch.split_with_sizes(self._x.index_select(0, index), sizes)
        y = torch.split_with_sizes(self._y.index_select(0, index), sizes)
        return list(zip(x, y, strict=True))

    def rows(self, domain: int, rows: Indices) -> Tensor:
        index = torch.from_numpy(rows + self._starts[domain]).to(self._device)
        return self._x.index_select(0, index)


class ImageInputs(Inputs):
    """Decoded images, augmented for training and normalised for their backbone."""

    rows_at_once = 64

    def __init__(
        self, dataset: DomainDataset, device: str, backbone: Backbone, *, augmented: bool
    ) -> None:
        super().__init__(dataset, device)
        self._backbone = backbone
        self._augmented = augmented

    def minibatches(
        self, domains: Sequence[int], rows: Sequence[Indices], *, random: Sequence[int]
    ) -> list[Minibatch]:
        """Augmented by a generator of this update's own, so that resuming needs no state."""
        if not self._augmented:
            return super().minibatches(domains, rows, random=random)
        generator = np.random.default_rng(np.random.SeedSequence(list(random)))
        return [
            (
                self._normalise(augment(self._dataset.rows(domain, part), generator)),
                self._labels(domain, part),
            )
            for domain, part in zip(domains, rows, strict=True)
        ]

    def rows(self, domain: int, rows: Indices) -> Tensor:
        return self._normalise(self._dataset.rows(domain, rows))

    def _normalise(self, pixels: NDArray[np.uint8]) -> Tensor:
        batch = torch.from_numpy(pixels).to(self._device).permute(0, 3, 1, 2)
        return self._backbone.normalise(batch)


def build_inputs(
    dataset: DomainDataset, device: str, *, backbone: Backbone | None, augmented: bool
) -> Inputs:
    """The inputs for a data set; images are normalised for ``backbone``."""
    if dataset.kind == "images":
        assert backbone is not None
        return ImageInputs(dataset, device, backbone, augmented=augmented)
    if dataset.kind == "features" and dataset.x[0].ndim > 2:
        return Inputs(dataset, device)
    return MemoryInputs(dataset, device)
