"""The callback of Lightning: chosen, kept on disk, recorded."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from topics import small
from topics.run_folder import contents

if TYPE_CHECKING:
    from ask import Side

SETTINGS: dict[str, dict[str, Any]] = {
    "lightning": {"delta_pp": 0.5},
    "lightning-wide": {"delta_pp": 3.0, "calibrator": "ts-soften"},
    "lightning-nll": {"rule": "ac-nll"},
}


def answers(side: Side) -> Iterator[tuple[str, object]]:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    import lightning

    logging.disable(logging.WARNING)

    class Classifier(lightning.LightningModule):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.net = small.network()

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
            return {"logits": self.net(batch[0]), "labels": batch[1]}

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    callback_of = side.public("checkwise.integrations.lightning:ReliabilityCheckpoint")
    for name, settings in SETTINGS.items():
        folder = Path("callbacks") / name
        callback = callback_of(domains=list(small.DOMAINS), dirpath=folder, **settings)
        quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
        torch.manual_seed(0)
        trainer = lightning.Trainer(accelerator="cpu", max_epochs=12, callbacks=[callback], **quiet)
        trainer.fit(Classifier(), loader("train"), [loader(domain) for domain in small.DOMAINS])
        chosen = {"step": callback.selection.step, "path": Path(callback.best_model_path).name}
        yield name, {**chosen, **contents(side, folder)}


def loader(name: str) -> Any:
    return DataLoader(TensorDataset(*small.examples(name)), batch_size=16)
