"""Networks in two halves, and the heads that go on frozen features."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from torch import nn


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
    featurizer = nn.Sequential(
        OrderedDict(
            hidden=nn.Linear(features, hidden), relu=nn.ReLU(), dropout=dropout_layer(dropout)
        )
    )
    return Network(featurizer, nn.Linear(hidden, classes), hidden)


def linear_head(features: int, classes: int, *, dropout: float = 0.0) -> Network:
    """A linear classifier on the features as they are; CORAL has nothing to train here."""
    return Network(dropout_layer(dropout), nn.Linear(features, classes), features)


def dropout_layer(rate: float) -> nn.Module:
    """Dropout that, at rate 0, neither copies its input nor advances the generator."""
    return nn.Dropout(rate) if rate else nn.Identity()
