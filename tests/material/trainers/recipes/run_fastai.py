"""fastai: CSVLogger's ``history.csv`` and SaveModelCallback's ``models/model_N.pth``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from fastai.basics import Callback, DataLoader, DataLoaders, Learner, set_seed
from fastai.callback.progress import CSVLogger
from fastai.callback.tracker import SaveModelCallback
from fastai.losses import CrossEntropyLossFlat
from fastai.metrics import accuracy, error_rate
from torch import nn

from tests.material.trainers.recipes.account import Account, keep
from tests.material.trainers.recipes.digits import Part, digits

VERSIONS = ("fastai", "fastcore", "torch")
EPOCHS = 12


class Watch(Callback):
    """Writes down the recorder's last values, before the model is saved."""

    order = SaveModelCallback.order - 1

    def __init__(self, account: Account) -> None:
        self.account = account

    def after_epoch(self) -> None:
        values = dict(zip(self.recorder.metric_names, self.recorder.log, strict=True))
        scores = {name: values[name] for name in ("accuracy", "error_rate") if name in values}
        step = (self.epoch + 1) * len(self.dls.train)
        self.account.evaluated(
            step=step,
            epoch=self.epoch,
            scores={"validation": {**scores, "loss": values["valid_loss"]}},
        )


def make(work: Path, into: Path) -> None:
    """All cases."""
    _train(work / "plain", into, [accuracy, error_rate])
    _train(work / "error_rate_only", into, [error_rate])
    _appended(work / "appended", into)


def _learner(case: Path, metrics: list[Any], seed: int = 0) -> Learner:
    set_seed(seed, reproducible=True)
    training, validation, _ = digits()
    loaders = DataLoaders(
        DataLoader(_pairs(training), bs=8, shuffle=True), DataLoader(_pairs(validation), bs=128)
    )
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    return Learner(
        loaders, model, loss_func=CrossEntropyLossFlat(), metrics=metrics, path=case, lr=0.04
    )


def _pairs(part: Part) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return list(zip(torch.from_numpy(part.x), torch.from_numpy(part.y), strict=True))


def _account(case: Path) -> Account:
    case.mkdir(exist_ok=True)
    n = {"validation": len(digits()[1])}
    best = ["models/first.pth", "models/second.pth"]
    return Account(case, "history.csv", "models/model_*.pth", n=n, moving=best)


def _train(case: Path, into: Path, metrics: list[Any]) -> None:
    account = _account(case)
    callbacks = [CSVLogger(), SaveModelCallback(every_epoch=True), Watch(account)]
    with _learner(case, metrics).no_bar() as learner, learner.no_logging():
        learner.fit(EPOCHS, cbs=callbacks)
    keep(case, into / case.name, runs=[account], logs=["history.csv"])


def _appended(case: Path, into: Path) -> None:
    """Two trainings in one log, each with its header; the best of each saved under its own name."""
    accounts = []
    for seed, name in ((0, "first"), (1, "second")):
        account = _account(case)
        callbacks = [CSVLogger(append=True), SaveModelCallback(fname=name), Watch(account)]
        with _learner(case, [accuracy], seed).no_bar() as learner, learner.no_logging():
            learner.fit(6, cbs=callbacks)
        account.over()
        accounts.append(account)
    keep(case, into / case.name, runs=accounts, logs=["history.csv"])
