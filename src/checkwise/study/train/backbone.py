"""Networks as two parts, what of a pretrained one is frozen, and what learns."""

from __future__ import annotations

import copy
from collections import OrderedDict
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from checkwise.errors import InputError
from checkwise.study.train.config import Tune


@dataclass(frozen=True)
class Network:
    """What an algorithm trains: the featurizer gives [n, `width`], the classifier [n, C].

    Weights are drawn from torch's global generator when the network is built.
    """

    featurizer: nn.Module
    classifier: nn.Module
    width: int


def mlp_head(features: int, classes: int, *, hidden: int = 256, dropout: float = 0.0) -> Network:
    """Linear → ReLU → dropout, then a linear classifier; the hidden layer is the featurizer.

    Example:
        >>> head = mlp_head(1280, 7)
        >>> head.width, head.classifier.out_features
        (256, 7)
    """
    layers = {"hidden": nn.Linear(features, hidden), "relu": nn.ReLU()}
    featurizer = nn.Sequential(OrderedDict(**layers, dropout=dropout_layer(dropout)))
    return Network(featurizer, nn.Linear(hidden, classes), hidden)


def linear_head(features: int, classes: int, *, dropout: float = 0.0) -> Network:
    return Network(dropout_layer(dropout), nn.Linear(features, classes), features)


def dropout_layer(rate: float) -> nn.Module:
    """Dropout that, at rate 0, neither copies its input nor advances the generator."""
    return nn.Dropout(rate) if rate else nn.Identity()


@dataclass(frozen=True)
class Backbone:
    """A pretrained network as modules in sequence, and the pixels they expect.

    `stages` are all but the last two stages, these two, and what follows the last with it; or one
    module, where the network could not be cut. Together they map [n, 3, `size`, `size`] to
    [n, `width`]. `mean` and `std` are per channel, on the 0–1 scale.
    """

    stages: tuple[nn.Module, ...]
    width: int
    size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    @property
    def stem(self) -> nn.Module:
        """All but the last stage; all of a network that could not be cut."""
        if len(self.stages) == 1:
            return self.stages[0]
        parts = (stage.named_children() for stage in self.stages[:-1])
        return nn.Sequential(OrderedDict(chain.from_iterable(parts)))

    @property
    def last_stage(self) -> nn.Module:
        """The last stage and what follows it; nothing of a network that could not be cut."""
        return self.stages[-1] if len(self.stages) > 1 else nn.Identity()

    def normalise(self, pixels: Tensor) -> Tensor:
        """Pixels 0–255 [n, 3, h, w], of any type, as the float32 input the network was trained on.

        For mean = std = 0.5 this is x/127.5 − 1.
        """
        shape = (1, 3, 1, 1)
        x = pixels.float()
        scale = x.new_tensor([255 * s for s in self.std]).view(shape)
        shift = x.new_tensor([m / s for m, s in zip(self.mean, self.std, strict=True)]).view(shape)
        return x / scale - shift


@dataclass(frozen=True)
class FrozenPart:
    """The part whose outputs never change in a run: compute them once per image and cache them."""

    module: nn.Module | None
    shape: tuple[int, ...]


def frozen_part(backbone: Backbone, tune: Tune, *, size: int | None = None) -> FrozenPart:
    """What to run once, and the shape of one example after it, for images of `size` pixels.

    `head` freezes everything and gives feature vectors, `last-stage` and `last-two-stages` give
    the activations these stages start from, `all` freezes nothing. The module is in evaluation
    mode and without gradients; run it under `torch.inference_mode()`.
    """
    learns = {"head": 0, "last-stage": 1, "last-two-stages": 2}
    if learns.get(tune) and len(backbone.stages) == 1:
        raise InputError(
            f'Expected a backbone with known stages for `tune = "{tune}"`, but got one that could '
            'not be cut there: use `tune = "head"` or "all", or a ResNet or EfficientNet.',
            code="unsupported",
        )
    side = size or backbone.size
    if tune == "all":
        return FrozenPart(None, (3, side, side))
    frozen = backbone.stages[: len(backbone.stages) - learns[tune]]
    module = nn.Sequential(*frozen).requires_grad_(False).eval()
    with torch.inference_mode():
        return FrozenPart(module, tuple(module(torch.zeros(1, 3, side, side)).shape[1:]))


def trainable_part(
    backbone: Backbone,
    tune: Tune,
    classes: int,
    *,
    dropout: float = 0.0,
    freeze_bn: bool = False,
    bn_momentum: float | None = None,
    channels_last: bool = False,
) -> Network:
    """The network that takes the frozen part's outputs, ready for `build_algorithm`.

    For `head` it is an MLP. Otherwise the featurizer is the live part of the backbone followed by
    dropout, and the classifier is linear. With `freeze_bn`, BatchNorm keeps its pretrained
    statistics while its scale and shift still learn, as in DomainBed; without, it is live, and
    `bn_momentum` replaces the momentum of its statistics. `channels_last` makes convolutions
    faster; the last bits of what they compute differ.
    """
    if tune == "head":
        return mlp_head(backbone.width, classes, dropout=dropout)
    live = {"last_stage": backbone.last_stage, "dropout": dropout_layer(dropout)}
    if tune == "all":
        live = {"stem": backbone.stem, **live}
    elif tune == "last-two-stages":
        live = {"second_last_stage": backbone.stages[1], **live}
    # A copy, so that the backbone stays pretrained for the next run.
    parts = copy.deepcopy(OrderedDict(live))
    featurizer = _FixedStatistics(parts) if freeze_bn else nn.Sequential(parts)
    featurizer.requires_grad_(True).train()
    if bn_momentum is not None:
        for module in featurizer.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.momentum = bn_momentum
    if channels_last:
        for module in featurizer.modules():
            if isinstance(module, nn.Conv2d):
                _pad_inside(module)
        featurizer.register_forward_pre_hook(_arranged)
        featurizer.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return Network(featurizer, nn.Linear(backbone.width, classes), backbone.width)


def _arranged(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(x.contiguous(memory_format=torch.channels_last) for x in inputs)


def _pad_inside(convolution: Any) -> None:
    """Padding by a module of its own moves into the convolution: this spares two copies."""
    padding = getattr(convolution, "static_padding", None)
    if isinstance(padding, nn.ZeroPad2d) and convolution.padding in ((0, 0), [0, 0]):
        left, right, top, bottom = padding.padding
        if left == right and top == bottom:
            convolution.padding = (top, left)
            convolution.static_padding = nn.Identity()


class _FixedStatistics(nn.Sequential):
    """A sequence whose BatchNorm layers stay in evaluation mode whatever mode it is put in."""

    def train(self, mode: bool = True) -> _FixedStatistics:
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()
        return self
