"""A training in one or two processes whose outputs are the same in both, bit by bit.

``python -m tests.integrations.lightning_processes FOLDER`` trains in two.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader

from checkwise.integrations.lightning import ReliabilityCheckpoint
from tests.forked_ranks import in_two
from tests.integrations.lightning_models import examples, validation_sets


class Scripted(pl.LightningModule):
    """Outputs that depend on the example and the step alone, in one operation per number."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6, 3)
        self.rows = 0

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return self.net(batch[0]).sum()

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
        self.rows += len(batch[0])
        step = self.trainer.global_step
        return {"logits": batch[0][:, :3] * (1 + step % 3), "labels": batch[1]}

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def train(folder: Path, processes: int) -> None:
    """Four epochs; every process writes what it saw."""
    choosing: Any = ReliabilityCheckpoint(
        "ac-nc",
        delta_pp=5,
        domains=["a", "b"],
        dirpath=folder / "checkpoints",
        predictions=True,
        tolerance="paired",
    )
    module = Scripted()
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=processes,
        strategy="ddp" if processes > 1 else "auto",
        callbacks=[choosing],
        max_epochs=4,
        num_sanity_val_steps=0,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    training = DataLoader(examples(16, 0), batch_size=8 // processes)
    trainer.fit(module, training, validation_sets("a", "b"))
    facts = {
        "best": choosing.best_model_path,
        "score": float(choosing.best_model_score),
        "kept": sorted(choosing.best_k_models),
        "logged": {name: float(value) for name, value in trainer.callback_metrics.items()},
    }
    (folder / f"rank-{trainer.global_rank}.json").write_text(json.dumps(facts))
    (folder / f"rows-{trainer.global_rank}").write_text(str(module.rows))


if __name__ == "__main__":
    in_two(lambda: train(Path(sys.argv[1]), 2))
