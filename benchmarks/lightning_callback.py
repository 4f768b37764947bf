"""What ReliabilityCheckpoint adds to an epoch, in processor time in its hooks."""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from benchmarks.rows import Row, show

IMAGES, VALIDATION, EPOCHS, CLASSES = 5000, 1000, 4, 10


def program() -> tuple[Any, Any, Any]:
    """The module and its dataloaders."""
    import lightning.pytorch as pl
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    class Network(pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(
                *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
                *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
                *(nn.Flatten(), nn.Linear(32 * 49, 64), nn.ReLU(), nn.Linear(64, CLASSES)),
            )

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def validation_step(self, batch: Any, batch_idx: int) -> Any:
            return {"logits": self.net(batch[0]), "labels": batch[1]}

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    def images(n: int) -> Any:
        labels = torch.arange(n) % CLASSES
        return TensorDataset(torch.rand(n, 1, 28, 28) + labels[:, None, None, None] / 10, labels)

    torch.manual_seed(0)
    torch.set_num_threads(1)
    return (
        Network(),
        DataLoader(images(IMAGES), batch_size=64),
        DataLoader(images(VALIDATION), batch_size=100),
    )


def timed(callback: Any, spent: list[float]) -> Any:
    """A callback whose hooks add their processor seconds to a list."""

    class Timed(type(callback)):  # type: ignore[misc]
        pass

    def wrap(name: str) -> Any:
        def hook(self: Any, trainer: Any, *arguments: Any) -> None:
            start = time.process_time()
            getattr(super(Timed, self), name)(trainer, *arguments)
            spent.append(time.process_time() - start)

        return hook

    for name in (
        "on_validation_epoch_start",
        "on_validation_batch_end",
        "on_validation_epoch_end",
        "on_validation_end",
    ):
        setattr(Timed, name, wrap(name))
    callback.__class__ = Timed
    return callback


def main() -> None:
    import lightning.pytorch as pl

    from checkwise.integrations.lightning import ReliabilityCheckpoint

    spent: list[float] = []
    saves: list[float] = []

    class Trainer(pl.Trainer):  # type: ignore[misc]
        def save_checkpoint(self, *arguments: Any, **options: Any) -> None:
            start = time.process_time()
            super().save_checkpoint(*arguments, **options)
            saves.append(time.process_time() - start)

    with tempfile.TemporaryDirectory() as name:
        trainer = Trainer(
            accelerator="cpu",
            callbacks=[timed(ReliabilityCheckpoint(dirpath=Path(name) / "run"), spent)],
            max_epochs=1,
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=name,
        )
        module, training, validation = program()
        trainer.fit(module, training, validation)  # imports everything
        spent.clear()
        saves.clear()
        trainer.fit_loop.max_epochs = 1 + EPOCHS
        start = time.process_time()
        with redirect_stdout(sys.stderr):
            trainer.fit(module, training, validation)
        whole = time.process_time() - start
    own = sum(spent) - sum(saves)
    show(
        [
            Row(
                "Lightning's `ReliabilityCheckpoint`, without Lightning's own save",
                "the rest of an epoch of a small CNN on 5,000 images",
                100 * own / (whole - own),
                3,
                unit="%",
            )
        ]
    )


if __name__ == "__main__":
    main()
