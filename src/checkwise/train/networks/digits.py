"""A convolutional network for 28×28 digits, small enough to train on one CPU core."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from checkwise.train.networks.heads import Network

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
