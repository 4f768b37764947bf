"""A small training by hand with torch, the same to the last digit whenever it is done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

DOMAINS = {"photo": 150, "sketch": 90}


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))


def examples(name: str) -> tuple[Tensor, Tensor]:
    """Noisy examples of one set, which a network learns in part."""
    draw = torch.Generator().manual_seed(sum(name.encode()))
    x = torch.randn(DOMAINS.get(name, 120), 6, generator=draw)
    return x, (x[:, :3] + 0.7 * torch.randn(len(x), 3, generator=draw)).argmax(1)


def outputs(path: str, domain: str) -> tuple[Tensor, Tensor]:
    """What `checkwise predict` calls."""
    model = network()
    model.load_state_dict(torch.load(path, weights_only=True))
    x, y = examples(domain)
    with torch.no_grad():
        return model(x), y


def training(steps: int = 120, every: int = 10) -> Iterator[tuple[int, nn.Module]]:
    """The model after every few steps."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = network()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.2)
    x, y = examples("train")
    for step in range(1, steps + 1):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        if step % every == 0:
            yield step, model


def checkpoints(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for step, model in training():
        torch.save(model.state_dict(), folder / f"model_{step}.pt")
    return folder
