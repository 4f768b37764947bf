"""Ultralytics, classification: ``results.csv`` and ``weights/epochN.pt``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

# Nothing is sent, and no settings of the user's are read or written.
os.environ["YOLO_OFFLINE"] = "true"

import numpy as np
from PIL import Image
from ultralytics import YOLO

from tests.material.trainers.recipes.account import Account, keep
from tests.material.trainers.recipes.digits import Part, digits

VERSIONS = ("ultralytics", "torch", "torchvision", "opencv-python-headless")
EPOCHS = 14


def make(work: Path, into: Path) -> None:
    """All cases: a checkpoint per epoch, and the default, which keeps the best and the last."""
    data = work / "digits"
    training, validation, _ = digits()
    _write_images(training, data / "train")
    _write_images(validation, data / "val")
    _train(data, work / "plain", into, n=len(validation), save_period=1)
    _train(data, work / "best_and_last", into, n=len(validation))


def _write_images(part: Part, folder: Path) -> None:
    for i, (x, y) in enumerate(zip(part.x, part.y, strict=True)):
        (folder / str(y)).mkdir(parents=True, exist_ok=True)
        image = Image.fromarray((x.reshape(8, 8) * 255).astype(np.uint8))
        image.resize((32, 32)).convert("RGB").save(folder / str(y) / f"{i}.png")


def _train(data: Path, case: Path, into: Path, *, n: int, **options: Any) -> None:
    account = Account(
        case,
        "results.csv",
        "weights/epoch*.pt",
        n={"validation": n},
        moving=["weights/best.pt", "weights/last.pt"],
    )

    def evaluated(trainer: Any) -> None:
        names = {"accuracy": "metrics/accuracy_top1", "loss": "val/loss"}
        # Reported after saving; and once more at the end, for the best weights and without a loss.
        reported = {k: trainer.metrics[v] for k, v in names.items() if v in trainer.metrics}
        steps = (trainer.epoch + 1) * len(trainer.train_loader)
        scores = {"validation": reported}
        account.evaluated(step=steps, epoch=trainer.epoch, scores=scores, saved_before=True)
        account.saved()
        if trainer.epoch + 1 == EPOCHS:
            # What follows only takes the optimizer's state out of best.pt and last.pt.
            account.over()

    model = YOLO("yolov8n-cls.yaml", task="classify")
    model.add_callback("on_fit_epoch_end", evaluated)
    model.train(
        data=str(data),
        project=str(case.parent),
        name=case.name,
        epochs=EPOCHS,
        imgsz=32,
        batch=16,
        device="cpu",
        workers=0,
        seed=0,
        optimizer="AdamW",
        lr0=0.004,
        warmup_epochs=0,
        erasing=0,
        fliplr=0,
        auto_augment=None,
        plots=False,
        pretrained=False,
        verbose=False,
        **options,
    )
    keep(case, into / case.name, runs=[account], logs=["results.csv"])
