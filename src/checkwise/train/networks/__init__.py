"""Networks: a small one for digits, heads for features, and pretrained backbones by name."""

from __future__ import annotations

from checkwise.errors import InputError
from checkwise.train.networks.backbone import (
    Backbone,
    FrozenPart,
    frozen_part,
    trainable_part,
)
from checkwise.train.networks.digits import digits_network
from checkwise.train.networks.from_timm import timm_backbone
from checkwise.train.networks.heads import Network, linear_head, mlp_head
from checkwise.train.networks.lite0 import lite0
from checkwise.train.networks.resnet50 import resnet50

__all__ = [
    "Backbone",
    "FrozenPart",
    "Network",
    "build_backbone",
    "digits_network",
    "frozen_part",
    "linear_head",
    "lite0",
    "mlp_head",
    "resnet50",
    "timm_backbone",
    "trainable_part",
]


def build_backbone(name: str) -> Backbone:
    """`lite0`, `resnet50`, or `timm:<model>` for any model timm knows."""
    if name == "lite0":
        return lite0()
    if name == "resnet50":
        return resnet50()
    if name.startswith("timm:"):
        return timm_backbone(name.removeprefix("timm:"))
    raise InputError(
        f"Expected the backbone `lite0`, `resnet50` or `timm:<model>`, but got {name!r}: choose "
        "one of these.",
        code="unknown",
    )
