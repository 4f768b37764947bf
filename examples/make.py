"""Train the small classifier behind `examples/`: ``python examples/make.py`` makes all of it again.

Handwritten digits of scikit-learn (8 × 8 pixels, ten classes): few labels, 300 to train on and 400
to validate. Plain PyTorch, one hidden layer, 1,200 steps of AdamW; every 100 steps a line in the
log, a checkpoint and its predictions.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

HERE = Path(__file__).parent
STEPS, EVERY, BATCH = 1200, 100, 32
TRAIN, VALIDATION = 300, 400


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def digits() -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Images and labels of both sets, after one seeded shuffle."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    train, val = order[:TRAIN], order[TRAIN : TRAIN + VALIDATION]
    x, y = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
    return {"train": (x[train], y[train]), "val": (x[val], y[val])}


def outputs(path: str, domain: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and labels of one checkpoint, as `checkwise predict` asks for them."""
    model, (images, labels) = network(), digits()[domain]
    model.load_state_dict(torch.load(path, weights_only=True))
    with torch.no_grad():
        return model(images), labels


def main() -> None:
    torch.manual_seed(0)
    model, (images, labels) = network(), digits()["train"]
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    (HERE / "log").mkdir(exist_ok=True)
    rows = []
    for step in range(1, STEPS + 1):
        batch = torch.randint(TRAIN, (BATCH,))
        loss = cross_entropy(model(images[batch]), labels[batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % EVERY == 0:
            checkpoint = HERE / "log" / f"checkpoint-{step}.pt"
            torch.save(model.state_dict(), checkpoint)
            rows.append([step, loss.item(), *evaluated(step, checkpoint)])
    with open(HERE / "log" / "log.csv", "w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(["step", "train_loss", "val_accuracy", "val_loss"])
        lines.writerows([step, *(f"{value:.4f}" for value in values)] for step, *values in rows)


def evaluated(step: int, checkpoint: Path) -> tuple[float, float]:
    """Validation accuracy and loss; the predictions are kept as they are."""
    logits, labels = outputs(str(checkpoint), "val")
    folder = HERE / "predictions" / f"step-{step:06d}"
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / "val.npz", logits=logits.numpy(), labels=labels.numpy())
    accuracy = (logits.argmax(1) == labels).double().mean()
    return accuracy.item(), cross_entropy(logits, labels).item()


if __name__ == "__main__":
    main()
