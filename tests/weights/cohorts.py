"""A small real cohort on digits, trained once for all tests of derived models."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from checkwise.study import recipe_of
from checkwise.study.baselines import OpenRuns, deriving
from checkwise.study.folder import open_cohort
from checkwise.study.sweep import Job, make_cohort, read_study, work

STUDY = """
name = "averages"
role = "development"
[data]
dataset = "RotatedMNIST"
held_out = ["75"]
[network]
kind = "digits"
[runs]
algorithms = ["GroupDRO"]
hparams_seeds = [0, 1]
trial_seeds = [0]
[training]
steps = 104
record_every = 13
averages = ["sma", "dense-swad"]
shared_init = true
[records]
keep = "all"
[hparams]
batch_size = 8
lr = 0.003
"""


def train_cohort(folder: Path, study: str = STUDY) -> Path:
    """Train a study in this process."""
    file = folder / "study.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(study)
    cohort = make_cohort(read_study(file), folder / "cohort", {})
    work(Job(cohort=str(cohort.path), round="test"))
    return cohort.path


def derive(path: Path, name: str, **options: Any) -> deriving.DeriveResult:
    """Make the models of a method by its name; ``roots`` says where data sets lie."""
    options.setdefault("opening", OpenRuns(options.pop("roots", None)))
    return deriving.derive(path, name, recipe_of(name), **options)


def copied(cohort: Path, folder: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(cohort, folder / "copy"))


def run_folders(cohort: Path) -> list[Path]:
    return list(open_cohort(cohort).runs.values())
