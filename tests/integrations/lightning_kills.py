"""``python -m tests.integrations.lightning_kills FOLDER SEED KILLS`` kills a training again."""

from __future__ import annotations

from pathlib import Path

import torch

from tests.integrations import kills
from tests.integrations.lightning_models import train_in


def step_of(path: Path) -> int:
    """The step that a checkpoint holds; only plain data is unpickled."""
    return int(torch.load(path, weights_only=True)["global_step"])


if __name__ == "__main__":
    kills.main(train_in, ".ckpt", step_of)
