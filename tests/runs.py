"""Tiny real runs on digits for the tests of store, loop and sweeps."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from checkwise.records import RunKey
from checkwise.study.data import DomainDataset, from_arrays, open_dataset
from checkwise.study.folder import kept_files
from checkwise.study.train import (
    NetworkConfig,
    RunConfig,
    TrainingData,
    hparams_for,
    prepare,
    train_run,
)
from checkwise.study.train.loop import Ending

DOMAINS = ("0", "15", "30")
ROWS = 60


@cache
def digits() -> DomainDataset:
    """The first sixty digits of three rotations."""
    whole = open_dataset("RotatedMNIST")
    indices = [whole.domain_index(name) for name in DOMAINS]
    arrays = {whole.domains[d]: (whole.x[d][:ROWS], whole.y[d][:ROWS]) for d in indices}
    return from_arrays("digits", arrays, kind="digits", classes=whole.classes)


@cache
def ready() -> TrainingData:
    torch.set_num_threads(1)
    return prepare(digits(), NetworkConfig("digits"), device="cpu")


def config(algorithm: str = "ERM", **changes: Any) -> RunConfig:
    """Thirteen updates, a record at steps 0, 3, 6, 9 and 12."""
    found = RunConfig(
        key=RunKey("digits", algorithm, ("30",), 0, 0),
        fingerprint=digits().fingerprint,
        network=NetworkConfig("digits"),
        hparams=hparams_for(
            "digits",
            algorithm,
            hparams_seed=0,
            trial_seed=0,
            overrides={"batch_size": 8, "lr": 3e-3},
        ),
        training_seed=7,
        steps=13,
        record_every=3,
        keep="all",
    )
    return replace(found, **changes)


def train(folder: Path, asked: RunConfig | None = None, **options: Any) -> Ending:
    """Train in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return train_run(folder, asked or config(), ready(), **options)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file that a finished run keeps, ``done`` included."""
    return {name: (folder / name).read_bytes() for name in [*kept_files(folder), "done"]}
