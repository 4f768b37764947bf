"""Any timm model as a backbone; timm is an optional extra."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn

from checkwise.errors import InputError
from checkwise.extras import naming_extras
from checkwise.train.networks.backbone import Backbone

_ALL: Final = slice(None)
_BUT_LAST: Final = slice(None, -1)
_LAST: Final = slice(-1, None)
_BUT_TWO: Final = slice(None, -2)
_SECOND_LAST: Final = slice(-2, -1)

# Families whose forward pass is a plain sequence: attributes before the last stage, of that stage
# and what follows; then the first of these again, before the second-to-last stage and of it.
_EFFICIENTNET: Final = (
    {"conv_stem": _ALL, "bn1": _ALL, "blocks": _BUT_LAST},
    {"blocks": _LAST, "conv_head": _ALL, "bn2": _ALL, "global_pool": _ALL},
    {"conv_stem": _ALL, "bn1": _ALL, "blocks": _BUT_TWO},
    {"blocks": _SECOND_LAST},
)
_RESNET: Final = (
    dict.fromkeys(("conv1", "bn1", "act1", "maxpool", "layer1", "layer2", "layer3"), _ALL),
    dict.fromkeys(("layer4", "global_pool"), _ALL),
    dict.fromkeys(("conv1", "bn1", "act1", "maxpool", "layer1", "layer2"), _ALL),
    {"layer3": _ALL},
)


@naming_extras()
def timm_backbone(name: str, *, pretrained: bool = True) -> Backbone:
    """The timm model `name` without its classifier.

    ResNets and EfficientNets are cut before their last two stages, after checking that the parts
    reproduce the model. Other families train only the head or all. Building the model does not
    advance torch's generator.
    """
    import timm

    with torch.random.fork_rng(devices=[]):
        try:
            model: Any = timm.create_model(name, pretrained=pretrained, num_classes=0).eval()
        except (RuntimeError, OSError) as error:
            reason = " ".join(str(error).split())
            raise InputError(
                f"Expected a timm model that can be loaded, but got {reason:.200} for {name!r}: "
                "check its name, and that its weights can be downloaded.",
                code="unknown",
            ) from error
        facts = model.pretrained_cfg
        size = int(facts["input_size"][-1])
        probe = torch.randn(1, 3, size, size)
    mean, std = (_three(facts[key]) for key in ("mean", "std"))
    with torch.inference_mode():
        whole: Tensor = model(probe)
        width = whole.shape[1]
        for stem, last_stage, early, second_last in _cuts(model):
            activations = stem(probe)
            if torch.allclose(last_stage(activations), whole, rtol=1e-4, atol=1e-5):
                cut, halves = tuple(activations.shape[1:]), (early, second_last)
                return Backbone(stem, last_stage, cut, width, size, mean, std, halves)
    return Backbone(model, nn.Identity(), None, width, size, mean, std)


def _cuts(model: nn.Module) -> list[list[nn.Sequential]]:
    return [
        [nn.Sequential(*(_part(model, *named) for named in part.items())) for part in parts]
        for parts in (_EFFICIENTNET, _RESNET)
        if all(hasattr(model, attribute) for part in parts for attribute in part)
    ]


def _part(model: nn.Module, attribute: str, stages: slice) -> nn.Module:
    module: Any = getattr(model, attribute)
    part: nn.Module = module if stages == _ALL else module[stages]
    return part


def _three(values: Any) -> tuple[float, float, float]:
    red, green, blue = values
    return float(red), float(green), float(blue)
