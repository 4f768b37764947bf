"""Lightning: CSVLogger's ``metrics.csv`` and TensorBoardLogger's event files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.material.trainers.recipes.account import Account, keep
from tests.material.trainers.recipes.digits import Part, digits

LOGS = ("**/metrics.csv", "**/hparams.yaml", "**/events.out.tfevents.*")
VERSIONS = ("lightning", "torch", "tensorboard")
EPOCHS = 12


class Classifier(lightning.LightningModule):
    """Two layers; subclasses say under which names they log."""

    validation_names: ClassVar = {"accuracy": "val_acc", "loss": "val_loss"}

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def scores(self, batch: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Accuracy and cross-entropy of a batch."""
        logits = self.layers(batch[0])
        accuracy = (logits.argmax(-1) == batch[1]).float().mean()
        return accuracy, nn.functional.cross_entropy(logits, batch[1])

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        accuracy, loss = self.scores(batch)
        self.log_dict({"train_acc": accuracy, "train_loss": loss})
        return loss

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        accuracy, loss = self.scores(batch)
        self.log_dict({"val_acc": accuracy, "val_loss": loss})

    def test_step(self, batch: Any, batch_idx: int) -> None:
        accuracy, loss = self.scores(batch)
        self.log_dict({"test_acc": accuracy, "test_loss": loss})

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=0.04)


class Slashes(Classifier):
    """Names with slashes, training by step and by epoch, validation by step too."""

    validation_names: ClassVar = {"accuracy": "val/acc", "loss": "val/loss"}

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        accuracy, loss = self.scores(batch)
        both = {"on_step": True, "on_epoch": True}
        self.log_dict({"train/acc": accuracy, "train/loss": loss}, **both)
        return loss

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        accuracy, loss = self.scores(batch)
        both = {"on_step": True, "on_epoch": True}
        self.log_dict({"val/acc": accuracy, "val/loss": loss}, **both)


class Watch(lightning.Callback):
    """Writes down what ``trainer.callback_metrics`` says after each validation."""

    def __init__(self, account: Account, names: dict[str, str]) -> None:
        self.account, self.names = account, names

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if trainer.sanity_checking:
            return
        sets = list(self.account.n)
        scores = {}
        for i, name in enumerate(sets):
            suffix = f"/dataloader_idx_{i}" if len(sets) > 1 else ""
            scores[name] = {
                metric: float(trainer.callback_metrics[column + suffix])
                for metric, column in self.names.items()
            }
        self.account.evaluated(step=trainer.global_step, epoch=trainer.current_epoch, scores=scores)


def make(work: Path, into: Path) -> None:
    """All cases."""
    _fit(work / "plain", into, save_last=True)
    _fit(work / "slashes", into, module=Slashes)
    _fit(work / "two_loaders", into, parities=True)
    _fit(work / "tested", into, tested=True, monitor="val_loss")
    _fit(work / "twice_an_epoch", into, val_check_interval=0.5)
    _fit(work / "names_with_metric", into, filename="{epoch:02d}-{val_loss:.2f}")
    _fit(work / "tensorboard", into, logger=TensorBoardLogger)
    _resumed(work / "resumed", into)


def _loader(part: Part, *, shuffle: bool = False) -> DataLoader[Any]:
    data = TensorDataset(torch.from_numpy(part.x), torch.from_numpy(part.y))
    return DataLoader(data, batch_size=8 if shuffle else 250, shuffle=shuffle)


def _trainer(
    case: Path,
    callbacks: list[Any],
    logger: Callable[..., Any] = CSVLogger,
    *,
    max_epochs: int = EPOCHS,
    **options: Any,
) -> lightning.Trainer:
    return lightning.Trainer(
        max_epochs=max_epochs,
        logger=logger(str(case)),
        callbacks=callbacks,
        default_root_dir=str(case),
        accelerator="cpu",
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )


def _account(case: Path, sets: dict[str, Part], version: int = 0) -> Account:
    folder = f"lightning_logs/version_{version}"
    return Account(
        case,
        f"{folder}/metrics.csv",
        f"{folder}/checkpoints/*epoch*.ckpt",
        n={name: len(part) for name, part in sets.items()},
        moving=[f"{folder}/checkpoints/last.ckpt"],
    )


def _fit(
    case: Path,
    into: Path,
    *,
    module: type[Classifier] = Classifier,
    parities: bool = False,
    tested: bool = False,
    logger: Callable[..., Any] = CSVLogger,
    val_check_interval: float = 1.0,
    **saving: Any,
) -> None:
    training, validation, test = digits()
    odd = validation.y % 2 == 1
    sets = (
        {"odd": validation.where(odd), "even": validation.where(~odd)}
        if parities
        else {"validation": validation}
    )
    lightning.seed_everything(0)
    account = _account(case, sets)
    if logger is TensorBoardLogger:
        account.log = "lightning_logs/version_0"
    callbacks = [Watch(account, module.validation_names), ModelCheckpoint(save_top_k=-1, **saving)]
    trainer = _trainer(case, callbacks, logger, val_check_interval=val_check_interval)
    loaders = [_loader(part) for part in sets.values()]
    trainer.fit(module(), _loader(training, shuffle=True), loaders)
    account.over()
    if tested:
        trainer.validate(dataloaders=loaders, ckpt_path="best", verbose=False, weights_only=False)
        trainer.test(dataloaders=_loader(test), ckpt_path="best", weights_only=False, verbose=False)
    keep(case, into / case.name, runs=[account], logs=LOGS)


def _resumed(case: Path, into: Path) -> None:
    """Six epochs, then six more from the sixth's checkpoint: Lightning starts a new version."""
    training, validation, _ = digits()
    sets = {"validation": validation}
    lightning.seed_everything(0)
    accounts = []
    for version, (epochs, checkpoint) in enumerate(
        [(6, None), (12, "lightning_logs/version_0/checkpoints/epoch=5-step=180.ckpt")]
    ):
        account = _account(case, sets, version)
        callbacks = [Watch(account, Classifier.validation_names), ModelCheckpoint(save_top_k=-1)]
        trainer = _trainer(case, callbacks, max_epochs=epochs)
        trainer.fit(
            Classifier(),
            _loader(training, shuffle=True),
            _loader(validation),
            ckpt_path=checkpoint and str(case / checkpoint),
            weights_only=False,
        )
        accounts.append(account)
    keep(case, into / case.name, runs=accounts, logs=LOGS)
