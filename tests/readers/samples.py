"""Small hand-made inputs of every kind the readers know."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Record = dict[str, Any]
STEPS = (0, 100, 200)
TARGET = 2


def domainbed(step: int, **changes: Any) -> Record:
    """A record of DomainBed with domains 0 to 3, of which 2 is the target."""
    record: Record = {
        "args": {
            "dataset": "PACS",
            "algorithm": "ERM",
            "test_envs": [TARGET],
            "hparams_seed": 1,
            "trial_seed": 2,
            "seed": 7,
            "holdout_fraction": 0.2,
        },
        "hparams": {"lr": 5e-5, "batch_size": 32},
        "step": step,
        "loss": 123.0,
        "nll": 456.0,
        "penalty": 789.0,
    }
    for env in range(4):
        record[f"env{env}_in_acc"] = 0.9
        record[f"env{env}_out_acc"] = 0.5 + step / 1000 + env / 100
    return record | changes


NAMES = ("art", "cartoon", "photo", "sketch")
CLASSES = ((0.9, 0.6), (0.8, 0.7))


def extended(step: int, **changes: Any) -> Record:
    """The same with the paper's calibration records."""
    record = domainbed(step)
    entries, classes = [], []
    for env, name in enumerate(NAMES):
        role = "target" if env == TARGET else "source"
        for split in ("in", "out"):
            place = {"domain_index": env, "domain_name": name, "split": split, "role": role}
            shift = (env + step / 100) / 100 + (split == "in") / 10
            right = 50 + env + step // 100
            entries.append(
                {
                    **place,
                    "accuracy": right / 100,
                    "nll": 0.7 + shift,
                    "ece": 0.1 + shift,
                    "classwise_ece": 0.05 + shift,
                    "n": 100,
                }
            )
            for label, accuracy in enumerate((0.9 - shift, 0.4 - shift)):
                classes.append({**place, "class_index": label, "class_accuracy": accuracy, "n": 50})
            classes.append({**place, "class_index": 2, "class_accuracy": 0.0, "n": 0})
    record["per_domain_calibration"] = entries
    record["per_domain_class_calibration"] = classes
    return record | changes


def swad(step: int, target: int, **changes: Any) -> Record:
    """A record of SWAD with domains 0 to 2."""
    record: Record = {
        "args": {
            "dataset": "HTP",
            "algorithm": "ERM",
            "test_envs": [[0], [1], [2]],
            "real_test_envs": [target],
            "trial_seed": 0,
            "seed": 0,
        },
        "hparams": {"lr": 5e-5, "test_env": f"te_0{target}"},
        "step": step,
        "loss": 99.0,
        "tr_outloss": 0.7 + step / 1000 + target / 10,
        "train_in": 0.0,
        "train_out": 0.5,
        "test_in": 0.4,
        "test_out": 0.3,
        f"env{target}_in": 0.4,
    }
    for env in range(3):
        record[f"env{env}_out"] = 0.5 + env / 10 + step / 1000
    return record | changes


def swad_file() -> list[Record]:
    return [swad(step, target) for target in range(3) for step in STEPS]


def write_lines(path: Path, records: Iterable[Record]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record, sort_keys=True) + "\n" for record in records))
    return path


def run_folder(
    folder: Path, make: Callable[..., Record] = domainbed, steps: Iterable[int] = STEPS
) -> Path:
    """A finished run folder as DomainBed leaves it."""
    write_lines(folder / "results.jsonl", [make(step) for step in steps])
    (folder / "done").write_text("done")
    return folder


def table_rows() -> list[Record]:
    """A tidy table with two source domains and a target."""
    return [
        {
            "step": step,
            "domain": domain,
            "role": "target" if domain == "sketch" else "source",
            "accuracy": accuracy + step / 1000,
            "nll": 0.7 - step / 1000,
            "ece": 0.1,
            "cwece": 0.05,
            "junk": "x",
        }
        for step in STEPS
        for domain, accuracy in (("art", 0.5), ("photo", 0.6), ("sketch", 0.1))
    ]


def write_csv(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    rows = list(rows)
    lines = [",".join(rows[0]), *(",".join(str(cell) for cell in row.values()) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def outputs(step: int, seed: int, n: int = 20) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    logits = rng.normal(size=(n, 3)) + (1 + step / 100) * np.eye(3)[labels]
    return {"logits": logits.astype(np.float32), "labels": labels}


def predictions_folder(folder: Path, steps: Iterable[int] = STEPS) -> Path:
    """Two source domains, and a target in a folder of its own."""
    for step in steps:
        place = folder / f"step-{step:06d}"
        (place / "target").mkdir(parents=True)
        np.savez(place / "art.npz", **outputs(step, 1))
        np.savez(place / "photo.npz", **outputs(step, 2))
        np.savez(place / "target" / "sketch.npz", **outputs(step, 3))
    return folder
