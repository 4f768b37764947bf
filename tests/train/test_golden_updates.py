"""Updates end where DomainBed's own code ends on the same minibatches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from checkwise.study.train import algorithm_names, build_algorithm
from checkwise.study.train.algorithms import GroupDRO

GOLDEN = Path(__file__).parent / "data" / "updates.npz"
LAYERS = {
    "network.0.input": "featurizer.0",
    "network.0.hiddens.0": "featurizer.2",
    "network.0.output": "featurizer.4",
    "network.1": "classifier",
}


@pytest.fixture(scope="module")
def golden() -> dict[str, NDArray[np.float64]]:
    with np.load(GOLDEN) as file:
        return dict(file)


@pytest.mark.parametrize("name", algorithm_names())
def test_forty_updates_match(name: str, golden: dict[str, NDArray[np.float64]]) -> None:
    lr, weight_decay, anneal, gamma, eta, irm, vrex = golden["hparams"]
    featurizer = nn.Sequential(
        nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16)
    )
    algorithm = build_algorithm(
        name,
        featurizer,
        nn.Linear(16, 4),
        {
            "lr": lr,
            "weight_decay": weight_decay,
            "mmd_gamma": gamma,
            "groupdro_eta": eta,
            "irm_lambda": irm,
            "irm_penalty_anneal_iters": anneal,
            "vrex_lambda": vrex,
            "vrex_penalty_anneal_iters": anneal,
        },
    )
    state = algorithm.state_dict()
    for theirs, ours in LAYERS.items():
        for part in ("weight", "bias"):
            state[f"{ours}.{part}"] = torch.tensor(golden[f"{name}/init/{theirs}.{part}"])
    algorithm.load_state_dict(state)

    losses = [
        float(
            algorithm.update(
                [(torch.tensor(x), torch.tensor(y)) for x, y in zip(xs, ys, strict=True)]
            )["loss"]
        )
        for xs, ys in zip(golden["x"], golden["y"], strict=True)
    ]

    np.testing.assert_allclose(losses, golden[f"{name}/loss"], rtol=1e-4)
    final = algorithm.deployable_state()
    for theirs, ours in LAYERS.items():
        for part in ("weight", "bias"):
            np.testing.assert_allclose(
                final[f"{ours}.{part}"].numpy(),
                golden[f"{name}/final/{theirs}.{part}"],
                rtol=1e-4,
                atol=1e-6,
            )
    if isinstance(algorithm, GroupDRO):
        np.testing.assert_allclose(algorithm.q.numpy(), golden["GroupDRO/q"], rtol=1e-5)
