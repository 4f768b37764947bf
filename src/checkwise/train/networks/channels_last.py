"""Convolutions with the channels last in memory, which CPUs compute 1.5 to 2 times as fast."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def with_channels_last(featurizer: nn.Sequential) -> nn.Sequential:
    """Rearrange a featurizer in place, inputs included; names of its parameters stay the same.

    Zero padding before a convolution moves into the convolution where it is the same on all
    sides: this spares two copies, forward and backward.
    """
    for module in featurizer.modules():
        if isinstance(module, nn.Conv2d):
            _pad_inside(module)
    featurizer.register_forward_pre_hook(_arranged)
    return featurizer.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _arranged(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(x.contiguous(memory_format=torch.channels_last) for x in inputs)


def _pad_inside(convolution: Any) -> None:
    """For convolutions that pad by a module of their own, as those of EfficientNet-Lite do."""
    padding = getattr(convolution, "static_padding", None)
    if isinstance(padding, nn.ZeroPad2d) and convolution.padding in ((0, 0), [0, 0]):
        left, right, top, bottom = padding.padding
        if left == right and top == bottom:
            convolution.padding = (top, left)
            convolution.static_padding = nn.Identity()
