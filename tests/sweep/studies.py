"""A tiny study on the embedded digits: four runs of five updates."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from checkwise.study.folder import open_cohort
from checkwise.study.sweep import make_cohort, read_study
from tests.runs import contents

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
TINY = """
name = "tiny"
role = "development"

[data]
dataset = "RotatedMNIST"
held_out = ["0", "75"]

[network]
kind = "digits"

[runs]
algorithms = ["ERM", "VREx"]

[training]
steps = 5
record_every = 2

[hparams]
batch_size = 8
"""


def tiny(*changes: tuple[str, str]) -> str:
    """The study, with some of its text replaced."""
    text = TINY
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return text


def write_tiny(folder: Path, *changes: tuple[str, str]) -> Path:
    """The same as a file."""
    path = folder / "tiny.toml"
    path.write_text(tiny(*changes))
    return path


def write_features(file: Path) -> Path:
    """A feature file of three domains with twenty examples each."""
    domains = np.array(["Art", "Photo", "Sketch"] * 20)
    examples = np.random.default_rng(0).random((60, 4), dtype=np.float32)
    np.savez(file, features=examples, label=np.arange(60) % 2, domain=domains)
    return file


def planned(study: Path, out: Path) -> Path:
    """A cohort of the study, in which nothing is trained yet."""
    make_cohort(read_study(study), out, {})
    return out


def all_contents(cohort: Path) -> dict[str, dict[str, bytes]]:
    """Every file that the finished runs of a cohort keep."""
    return {folder.name: contents(folder) for folder in open_cohort(cohort).runs.values()}
