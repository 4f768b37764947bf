"""The frozen part of a backbone, run once over a data set and cached."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from checkwise.data import DomainDataset, frozen_features
from checkwise.data.manifest import Progress
from checkwise.train.config import NetworkConfig
from checkwise.train.networks import Backbone, build_backbone, frozen_part
from checkwise.train.networks.backbone import Tune

Pixels = NDArray[np.uint8]
Features = NDArray[np.float32]


@cache
def backbone_named(name: str) -> Backbone:
    """A backbone, loaded once per process."""
    return build_backbone(name)


def lite0_features(images: Pixels) -> Features:
    """1,280 features per image; importable by name, so that child processes can run it."""
    return extractor("lite0", "head", "cpu")(images)


def lite0_activations(images: Pixels) -> Features:
    """The 192×7×7 activations before the last stage; importable by name."""
    return extractor("lite0", "last-stage", "cpu")(images)


_BY_NAME = {"head": lite0_features, "last-stage": lite0_activations}


@cache
def extractor(name: str, tune: Tune, device: str) -> Callable[[Pixels], Features]:
    """A function from pixels to what the frozen part makes of them."""
    backbone = backbone_named(name)
    module = frozen_part(backbone, tune).module
    assert module is not None
    module = module.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]

    def extract(images: Pixels) -> Features:
        with torch.inference_mode():
            pixels = torch.from_numpy(np.array(images)).permute(0, 3, 1, 2)
            features: Any = module(backbone.normalise(pixels.to(device)))
        found: Features = features.float().cpu().numpy()
        return found

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
    extract: Callable[[Pixels], Features] | str = extractor(network.backbone, network.tune, device)
    if network.backbone == "lite0" and device == "cpu":
        extract = f"{__name__}:{_BY_NAME[network.tune].__name__}"
    return frozen_features(
        dataset,
        f"{network.backbone} {network.tune} {weights_hash(network.backbone)}",
        extract,
        dtype=np.float32 if network.tune == "head" else np.float16,
        progress=progress,
    )


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
