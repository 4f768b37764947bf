"""Keras (on torch): CSVLogger's ``training.log`` and the TensorBoard callback's event files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

os.environ["KERAS_BACKEND"] = "torch"

import keras
from keras.callbacks import CSVLogger, ModelCheckpoint, TensorBoard

from tests.material.trainers.recipes.account import Account, keep
from tests.material.trainers.recipes.digits import digits

LOGS = ("*.log", "*.csv", "**/events.out.tfevents.*")
# The TensorBoard callback writes with tensorflow, whatever computes.
VERSIONS = ("keras", "torch", "tensorflow")
EPOCHS = 12


class Watch(keras.callbacks.Callback):
    """Writes down the logs of each epoch's end; stands before the callback that saves."""

    def __init__(self, account: Account) -> None:
        super().__init__()
        self.account = account

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if "val_loss" in logs:
            scores = {"accuracy": logs["val_accuracy"], "loss": logs["val_loss"]}
            step = int(self.model.optimizer.iterations)
            self.account.evaluated(step=step, epoch=epoch, scores={"validation": scores})


def make(work: Path, into: Path) -> None:
    """All cases."""
    _plain(work / "plain", into)
    _names_with_metric(work / "names_with_metric", into)
    _appended(work / "appended", into)
    _resumed(work / "resumed", into)
    _tensorboard(work / "tensorboard", into)
    _no_validation(work / "no_validation", into)


def _model(seed: int = 0) -> keras.Model:
    keras.utils.set_random_seed(seed)
    layers = [keras.Input((64,)), keras.layers.Dense(32, "relu"), keras.layers.Dense(10, "softmax")]
    model = keras.Sequential(layers)
    adam, loss = keras.optimizers.Adam(0.04), "sparse_categorical_crossentropy"
    model.compile(optimizer=adam, loss=loss, metrics=["accuracy"])
    return model


def _account(case: Path, log: str, own: str = "weights.*.keras") -> Account:
    case.mkdir(exist_ok=True)
    n = {"validation": len(digits()[1])}
    return Account(case, log, own, n=n, moving=["best.keras"])


def _fit(
    model: keras.Model, callbacks: list[Any], *, validated: bool = True, **options: Any
) -> None:
    training, validation, _ = digits()
    model.fit(
        training.x,
        training.y,
        batch_size=8,
        validation_data=(validation.x, validation.y) if validated else None,
        callbacks=callbacks,
        verbose=0,
        **({"epochs": EPOCHS} | options),
    )


def _plain(case: Path, into: Path) -> None:
    account = _account(case, "training.log")
    saving = [
        ModelCheckpoint(str(case / "weights.{epoch:02d}.keras")),
        ModelCheckpoint(str(case / "best.keras"), save_best_only=True),
    ]
    _fit(_model(), [CSVLogger(str(case / "training.log")), Watch(account), *saving])
    keep(case, into / case.name, runs=[account], logs=LOGS)


def _names_with_metric(case: Path, into: Path) -> None:
    account = _account(case, "history.csv", "checkpoints/*.weights.h5")
    name = "checkpoints/{epoch:02d}-{val_accuracy:.3f}.weights.h5"
    saving = ModelCheckpoint(str(case / name), save_weights_only=True)
    _fit(_model(), [CSVLogger(str(case / "history.csv"), separator=";"), Watch(account), saving])
    keep(case, into / case.name, runs=[account], logs=LOGS)


def _appended(case: Path, into: Path) -> None:
    """Two trainings write into one log and save under the same names: only the second is left."""
    accounts: list[Account] = []
    for seed, epochs in ((0, 8), (1, 12)):
        account = _account(case, "training.log")
        log = CSVLogger(str(case / "training.log"), append=True)
        saving = ModelCheckpoint(str(case / "weights.{epoch:02d}.keras"))
        _fit(_model(seed), [log, Watch(account), saving], epochs=epochs)
        if accounts:
            accounts[0].overwritten()
        account.over()
        accounts.append(account)
    keep(case, into / case.name, runs=accounts, logs=LOGS)


def _resumed(case: Path, into: Path) -> None:
    """Eight epochs; then from the sixth's weights to the twelfth, into the same log."""
    account = _account(case, "training.log")
    for first, last in ((0, 8), (6, EPOCHS)):
        model = keras.saving.load_model(case / "weights.06.keras") if first else _model()
        if first:
            account.resume(step=180)
        log = CSVLogger(str(case / "training.log"), append=first > 0)
        saving = ModelCheckpoint(str(case / "weights.{epoch:02d}.keras"))
        _fit(model, [log, Watch(account), saving], initial_epoch=first, epochs=last)
    keep(case, into / case.name, runs=[account], logs=LOGS)


def _tensorboard(case: Path, into: Path) -> None:
    account = _account(case, "logs")
    saving = ModelCheckpoint(str(case / "weights.{epoch:02d}.keras"))
    board = TensorBoard(str(case / "logs"), write_graph=False)
    _fit(_model(), [board, Watch(account), saving])
    keep(case, into / case.name, runs=[account], logs=LOGS)


def _no_validation(case: Path, into: Path) -> None:
    account = _account(case, "training.log")
    saving = ModelCheckpoint(str(case / "weights.{epoch:02d}.keras"))
    callbacks = [CSVLogger(str(case / "training.log")), Watch(account), saving]
    _fit(_model(), callbacks, validated=False, epochs=4)
    keep(case, into / case.name, runs=[account], logs=LOGS)
