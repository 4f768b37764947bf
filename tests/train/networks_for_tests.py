"""Small networks and minibatches shared by the tests of algorithms."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from checkwise.study.train import Algorithm, build_algorithm

HPARAMS = {
    "lr": 1e-2,
    "weight_decay": 1e-3,
    "mmd_gamma": 1.0,
    "groupdro_eta": 1e-2,
    "irm_lambda": 100.0,
    "irm_penalty_anneal_iters": 3,
    "vrex_lambda": 10.0,
    "vrex_penalty_anneal_iters": 3,
}


def small(name: str, *, seed: int = 0, features: int = 6, classes: int = 3) -> Algorithm:
    """An algorithm on a small network with BatchNorm and dropout: all the state there can be."""
    torch.manual_seed(seed)
    featurizer = nn.Sequential(
        nn.Linear(features, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1)
    )
    return build_algorithm(name, featurizer, nn.Linear(8, classes), HPARAMS)


def minibatches(
    seed: int, sizes: tuple[int, ...] = (5, 5, 5), *, features: int = 6, classes: int = 3
) -> list[tuple[Tensor, Tensor]]:
    """One minibatch per size."""
    random = torch.Generator().manual_seed(seed)
    return [
        (torch.randn(n, features, generator=random), torch.randint(classes, (n,), generator=random))
        for n in sizes
    ]
