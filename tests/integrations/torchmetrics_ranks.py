"""Predictions, and ``python -m tests.integrations.torchmetrics_ranks FOLDER``: two share them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from checkwise.integrations.torchmetrics import ECE, NLL, CwECE, HardCwECE, HardECE
from tests.forked_ranks import in_two

CLASSES: dict[str, Any] = {
    "ece": ECE,
    "hard_ece": HardECE,
    "cwece": CwECE,
    "hard_cwece": HardCwECE,
    "nll": NLL,
}


def predictions(n: int = 203, classes: int = 5, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    logits = rng.normal(size=(n, classes)).astype(np.float32) * 2
    logits[np.arange(n), labels] += 1.5
    return torch.as_tensor(logits), torch.as_tensor(labels)


def one_rank(folder: Path) -> None:
    """Adds every second example and writes what all processes together have."""
    torch.distributed.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    logits, labels = predictions()
    values = {}
    for name, kind in CLASSES.items():
        metric = kind(num_classes=5)
        metric.update(logits[rank::2], labels[rank::2])
        values[name] = metric.compute().item()
    (folder / f"{rank}").write_text(json.dumps(values))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    in_two(lambda: one_rank(Path(sys.argv[1])))
