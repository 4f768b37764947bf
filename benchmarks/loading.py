"""Reading a sweep of 540 DomainBed logs, against parsing the same bytes as JSON.

Run: ``python -m benchmarks.loading``
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from benchmarks.rows import Row, in_turn, show
from checkwise.readers import load_runs

RUNS, RECORDS = 540, 51


def record(run: int, step: int) -> dict[str, object]:
    """One record with the fields and lengths that DomainBed writes."""
    target, rest = run % 4, run // 4
    fields: dict[str, object] = {
        "args": {
            "algorithm": f"Algorithm{rest % 5}",
            "checkpoint_freq": None,
            "data_dir": "./domainbed/data/",
            "dataset": "TerraIncognita",
            "device": 0,
            "holdout_fraction": 0.2,
            "hparams": None,
            "hparams_seed": rest // 5 % 9,
            "output_dir": f"./domainbed/results/{run:032x}",
            "save_model_every_checkpoint": False,
            "seed": 1862235703 + run,
            "skip_model_save": False,
            "steps": None,
            "task": "domain_generalization",
            "test_envs": [target],
            "trial_seed": rest // 45,
            "uda_holdout_fraction": 0,
        },
        "epoch": step / 131.7,
        "hparams": {
            "batch_size": 32,
            "class_balanced": False,
            "data_augmentation": True,
            "lr": 5e-05,
            "nonlinear_classifier": False,
            "resnet18": False,
            "resnet_dropout": 0.0,
            "weight_decay": 0.0,
        },
        "loss": 470.73114013671875 / (step + 1),
        "mem_gb": 5.480657577514648,
        "step": step,
        "step_time": 11.030442714691162,
    }
    for env in range(4):
        for split in ("in", "out"):
            fields[f"env{env}_{split}_acc"] = ((run + step * (env + 1)) % 1009) / 1009
    return fields


def write_sweep(root: Path) -> int:
    """The sweep on disk; returns its size in bytes."""
    size = 0
    for run in range(RUNS):
        folder = root / f"{run:032x}"
        folder.mkdir()
        lines = [json.dumps(record(run, 100 * t), sort_keys=True) for t in range(RECORDS)]
        size += (folder / "results.jsonl").write_text("\n".join(lines) + "\n")
        (folder / "done").write_text("done")
    return size


def parse_only(root: Path) -> int:
    """What any reader has to do at least."""
    return sum(
        len([json.loads(line) for line in path.read_text().splitlines()])
        for path in sorted(root.glob("*/results.jsonl"))
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        size = write_sweep(root)
        works = {"parsed": lambda: parse_only(root), "loaded": lambda: load_runs(root)}
        took = in_turn(works, rounds=3)
    show(
        [
            Row(
                f"{RUNS} DomainBed logs ({size / 1e6:.0f} MB) as runs",
                "the bare `json.loads` of their lines",
                took["loaded"] / took["parsed"],
                4,
            )
        ]
    )


if __name__ == "__main__":
    main()
