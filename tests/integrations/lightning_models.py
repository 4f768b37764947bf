"""A tiny classifier, data for it, and short trainings; for either package of Lightning.

``python -m tests.integrations.lightning_models FOLDER`` trains there.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from checkwise.integrations.lightning import ReliabilityCheckpoint

PACKAGE = os.environ.get("CHECKWISE_LIGHTNING", "lightning.pytorch")
pl: Any = import_module(PACKAGE)

FEATURES, CLASSES = 6, 3
SIZES = {"a": 21, "b": 34}


class Classifier(pl.LightningModule):
    """One linear layer; keeps what validation saw if ``seen`` names a folder."""

    def __init__(self, *, seen: Path | None = None, rate: float = 0.5) -> None:
        super().__init__()
        self.net = nn.Linear(FEATURES, CLASSES)
        self.rate, self.seen = rate, seen
        self.outputs: dict[int, dict[str, list[tuple[Any, Any]]]] = {}

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
        logits = self.net(batch[0])
        self.log("val_loss", nn.functional.cross_entropy(logits, batch[1]))
        if not self.trainer.sanity_checking:
            sets = self.outputs.setdefault(self.trainer.global_step, {})
            if batch_idx == 0:
                sets["ab"[dataloader_idx]] = []
            pair = (logits.numpy().copy(), batch[1].numpy().copy())
            sets["ab"[dataloader_idx]].append(pair)
        return {"logits": logits, "labels": batch[1]}

    def on_validation_epoch_end(self) -> None:
        if self.seen is not None and not self.trainer.sanity_checking:
            step = self.trainer.global_step
            arrays = {
                f"{name}_{kind}": values
                for name, (logits, labels) in self.predictions()[step].items()
                for kind, values in (("logits", logits), ("labels", labels))
            }
            np.savez(self.seen / "new.npz", **arrays)
            (self.seen / "new.npz").replace(self.seen / f"{step}.npz")

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=self.rate)

    def predictions(self) -> dict[int, dict[str, tuple[Any, Any]]]:
        """Step → domain → logits and labels of the whole set."""
        return {
            step: {
                name: (
                    np.concatenate([logits for logits, _ in batches]),
                    np.concatenate([labels for _, labels in batches]),
                )
                for name, batches in sets.items()
            }
            for step, sets in self.outputs.items()
        }


def examples(n: int, seed: int) -> TensorDataset:
    """Noisy examples that a linear layer learns in part."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(n, FEATURES, generator=draw)
    y = (x[:, :CLASSES] + torch.randn(n, CLASSES, generator=draw)).argmax(1)
    return TensorDataset(x, y)


def training_set() -> DataLoader[Any]:
    return DataLoader(examples(64, 0), batch_size=16)


def validation_sets(*names: str) -> list[DataLoader[Any]]:
    return [DataLoader(examples(SIZES[name], ord(name)), batch_size=8) for name in names]


def trainer(folder: Path, *callbacks: Any, **options: Any) -> Any:
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    defaults = {"accelerator": "cpu", "max_epochs": 4, "default_root_dir": folder, **quiet}
    return pl.Trainer(callbacks=list(callbacks), **{**defaults, **options})


def fit(
    folder: Path, callback: Any, *others: Any, names: str = "ab", resume: Any = None, **options: Any
) -> tuple[Any, Classifier]:
    """A whole training; the Trainer and the module."""
    torch.manual_seed(0)
    module, running = Classifier(), trainer(folder, *others, callback, **options)
    running.fit(module, training_set(), validation_sets(*names), ckpt_path=resume)
    return running, module


def train_in(folder: Path) -> None:
    """Sixteen validations in all; goes on from the last checkpoint if there is one."""
    torch.manual_seed(0)
    (folder / "seen").mkdir(exist_ok=True)
    callback = ReliabilityCheckpoint(
        "ac-nc",
        delta_pp=2,
        domains=["a", "b"],
        dirpath=folder / "checkpoints",
        calibrator="ts-soften",
    )
    running = trainer(folder, callback, max_epochs=8, val_check_interval=2)
    module = Classifier(seen=folder / "seen", rate=2.0)
    running.fit(module, training_set(), validation_sets("a", "b"), ckpt_path="last")
    (folder / "done").write_text(callback.best_model_path)


if __name__ == "__main__":
    train_in(Path(sys.argv[1]))
