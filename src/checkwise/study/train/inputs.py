"""Examples as tensors: minibatches to train on and rows to evaluate, without decoding twice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from checkwise.study.data import DomainDataset, augment
from checkwise.study.train.algorithms import Minibatch
from checkwise.study.train.backbone import Backbone

Indices = NDArray[np.int64]


class Inputs:
    """A data set as the network takes it; one per process, shared by its runs.

    These are activations: large, so they stay in their memory-mapped file until they are needed.
    """

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
