"""BatchNorm statistics for weights that no minibatch has ever passed through."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


def live_layers(network: nn.Module) -> list[_BatchNorm]:
    """The BatchNorm layers that learn statistics in training; fixed ones are not among them."""
    was_training = network.training
    network.train()
    layers = [
        layer
        for layer in network.modules()
        if isinstance(layer, _BatchNorm) and layer.training and layer.track_running_stats
    ]
    network.train(was_training)
    return layers


@torch.no_grad()
def reestimate(
    network: nn.Module, batches: Iterable[Tensor], forward: Callable[[Tensor], object]
) -> int:
    """Re-estimate the statistics of live layers from nothing; returns how many layers there are.

    Each statistic becomes the plain mean of the minibatches' means and unbiased variances
    (momentum None). The rest of the network is in evaluation mode, so dropout changes nothing.
    """
    layers = live_layers(network)
    if not layers:
        return 0
    network.eval()
    momenta = [layer.momentum for layer in layers]
    try:
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None
            layer.train()
        for batch in batches:
            forward(batch)
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
        network.eval()
    return len(layers)
