"""The frozen part of a backbone, run once over a data set and cached."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from checkwise.data import DomainDataset, frozen_features
from checkwise.data.feature_cache import Extract
from checkwise.data.manifest import Progress
from checkwise.train.config import NetworkConfig, Tune
from checkwise.train.networks import Backbone, build_backbone, frozen_part
from checkwise.train.networks.extract_pool import child_processes

Pixels = NDArray[np.uint8]
Features = NDArray[np.float32]


@cache
def backbone_named(name: str) -> Backbone:
    """A backbone, loaded once per process."""
    return build_backbone(name)


@cache
def extractor(name: str, tune: Tune, device: str) -> Callable[[Pixels], Features]:
    """A function from images to the outputs of the frozen part."""
    backbone = backbone_named(name)
    module = frozen_part(backbone, tune).module
    assert module is not None
    module = module.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]

    def extract(images: Pixels) -> Features:
        with torch.inference_mode():
            pixels = torch.from_numpy(np.array(images)).permute(0, 3, 1, 2)
            features: Any = module(backbone.normalise(pixels.to(device)))
        rows: Features = features.float().cpu().numpy()
        return rows

    return extract


def freeze(
    dataset: DomainDataset,
    network: NetworkConfig,
    *,
    device: str = "cpu",
    progress: Progress | None = None,
) -> DomainDataset:
    """The data set the network is trained on: its frozen part applied, once for all runs."""
    if network.kind != "backbone" or network.tune == "all":
        return dataset
    frozen_part(backbone_named(network.backbone), network.tune)  # refuses before a child would
    with _extraction(network, device) as (extract, width):
        return frozen_features(
            dataset,
            f"{network.backbone} {network.tune} {weights_hash(network.backbone)}",
            extract,
            width=width,
            dtype=np.float32 if network.tune == "head" else np.float16,
            progress=progress,
        )


@contextmanager
def _extraction(network: NetworkConfig, device: str) -> Iterator[tuple[Extract, int]]:
    """The extractor, and how many threads may call it: on a CPU, a child process for each core."""
    if device != "cpu":
        yield (lambda images: extractor(network.backbone, network.tune, device)(images)), 1
        return
    cores = os.cpu_count() or 1
    with child_processes(network.backbone, network.tune, count=cores) as extract:
        yield extract, cores


@cache
def weights_hash(name: str) -> str:
    """SHA-256 of a backbone's parameters and buffers."""
    backbone = backbone_named(name)
    digest = hashlib.sha256()
    for part in (backbone.stem, backbone.last_stage):
        for key, tensor in part.state_dict().items():
            digest.update(key.encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
