"""What ReliabilityCheckpoint adds to an epoch of a small CNN on 5,000 images, and holds in memory.

    python -m benchmarks.lightning_callback

The time is the processor's, in the callback's hooks but for Lightning's own save, against the rest
of the epoch. What the hooks wait for the disk is shown beside it. Memory is what checkwise
allocates and still holds after an epoch, against what the process held at most.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
import tracemalloc
from importlib.util import find_spec
from pathlib import Path
from typing import Any

IMAGES, VALIDATION, EPOCHS, CLASSES = 5000, 1000, 4, 10
MOST_TIME, MOST_MEMORY = 0.03, 0.01


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


def timed(callback: Any, spent: list[float], passed: list[float]) -> Any:
    """A callback whose hooks add their seconds to two lists: of the processor, of the clock."""

    class Timed(type(callback)):  # type: ignore[misc]
        pass

    def wrap(name: str) -> Any:
        def hook(self: Any, trainer: Any, *arguments: Any) -> None:
            start, began = time.process_time(), time.perf_counter()
            getattr(super(Timed, self), name)(trainer, *arguments)
            spent.append(time.process_time() - start)
            passed.append(time.perf_counter() - began)

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


def main() -> int:
    if find_spec("lightning") is None:
        print("lightning is not installed: skipped")
        return 0
    import lightning.pytorch as pl

    from checkwise.integrations.lightning import ReliabilityCheckpoint

    module, training, validation = program()
    spent: list[float] = []
    passed: list[float] = []
    saves: list[float] = []
    waits: list[float] = []

    class Trainer(pl.Trainer):  # type: ignore[misc]
        def save_checkpoint(self, *arguments: Any, **options: Any) -> None:
            start, began = time.process_time(), time.perf_counter()
            super().save_checkpoint(*arguments, **options)
            saves.append(time.process_time() - start)
            waits.append(time.perf_counter() - began)

    with tempfile.TemporaryDirectory() as name:
        callback = timed(ReliabilityCheckpoint(dirpath=Path(name) / "run"), spent, passed)
        trainer = Trainer(
            accelerator="cpu",
            callbacks=[callback],
            max_epochs=1,
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=name,
        )
        trainer.fit(module, training, validation)  # imports and compiles everything
        for seconds in (spent, passed, saves, waits):
            seconds.clear()
        trainer.fit_loop.max_epochs = 1 + EPOCHS
        start = time.process_time()
        trainer.fit(module, training, validation)
        whole = time.process_time() - start
        own_time, own_wait = sum(spent) - sum(saves), sum(passed) - sum(waits)
        trainer.fit_loop.max_epochs = 2 + EPOCHS
        tracemalloc.start()
        before = tracemalloc.take_snapshot()
        trainer.fit(module, training, validation)
        after = tracemalloc.take_snapshot()
        tracemalloc.stop()
    own = [tracemalloc.Filter(True, "*checkwise*")]
    grown = after.filter_traces(own).compare_to(before.filter_traces(own), "filename")
    held = sum(difference.size_diff for difference in grown)
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    share = own_time / (whole - own_time)
    print(f"epoch       {whole / EPOCHS * 1000:6.0f} ms of the processor")
    print(f"callback    {own_time / EPOCHS * 1000:6.1f} ms, {share:.2%}; by the clock ", end="")
    print(f"{own_wait / EPOCHS * 1000:.1f} ms")
    print(f"memory held {held / 1024:6.0f} kB of {resident / 2**20:.0f} MB, {held / resident:.3%}")
    missed = share > MOST_TIME or held / resident > MOST_MEMORY
    print(f"target      {MOST_TIME:.0%} and {MOST_MEMORY:.0%}  {'MISSED' if missed else 'ok'}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
