"""Show in install.md what every extra takes on disk, as tools/extra_sizes.py measured it."""

from __future__ import annotations

import csv
from pathlib import Path

from studies.page import fill

DOCS = Path(__file__).parents[1]
PAGE = DOCS / "install.md"
PART = "sizes"
# What each extra is for, in the order of the table.
USES = {
    "": "choose from logs, tables and predictions; live selection; the page of a run",
    "study": "compare rules over a study; tables, figures, the report of a study",
    "parquet": "choose from Parquet tables",
    "train": "train runs, deploy and calibrate them, the demo (torch, embedded digits, scipy)",
    "backbone": "the pretrained EfficientNet-Lite0",
    "timm": "pretrained networks of timm",
    "lightning": "the callback for Lightning",
    "transformers": "the callback for a Trainer of transformers, and Accelerate",
    "keras": "the callback for Keras 3; its backend (torch, JAX or TensorFlow) comes on top",
    "torchmetrics": "calibration metrics for torchmetrics",
    "onnx": "export a deployed model to ONNX; torch comes on top",
    "slurm": "train a study on Slurm",
    "ray": "train a study on Ray; Ray Train",
    "mlflow": "log choices to MLflow",
    "tensorboard": "log choices to TensorBoard; reading its files needs nothing",
    "trackio": "log choices to Trackio",
    "wandb": "log choices to Weights & Biases",
}


def table() -> str:
    """Every extra with its use and its size, as markdown."""
    with (DOCS / "install-sizes.csv").open() as file:
        sizes = {row["extra"]: row for row in csv.DictReader(file)}
    lines = ["| install | for | packages | MB |", "|---|---|---:|---:|"]
    core = sizes[""]
    lines += [f"| `checkwise` | {USES['']} | {core['packages']} | {core['megabytes']} |"]
    for extra, use in list(USES.items())[1:]:
        row = sizes[extra]
        further = f"+ {row['further_packages']} | + {row['further_megabytes']}"
        lines.append(f"| `checkwise[{extra}]` | {use} | {further} |")
    return "\n".join(lines)


if __name__ == "__main__":
    fill(PAGE, PART, table())
