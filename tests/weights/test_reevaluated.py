"""Calibrating runs that kept their weights but not their logits."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.weights.cohorts import answer, complaint, train_cohort

STUDY = """
name = "tiny"
role = "development"
[data]
dataset = "RotatedMNIST"
held_out = ["0"]
[network]
kind = "digits"
[runs]
algorithms = ["ERM"]
[training]
steps = 9
record_every = 4
[records]
keep = "all"
logits = "all"
[hparams]
batch_size = 8
lr = 0.003
"""


def test_logits_that_were_not_saved_are_made_again_from_the_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = train_cohort(tmp_path, STUDY)
    (run,) = (path / "runs").iterdir()
    saved = answer(["calibrate", str(path), "--oracle"], capsys)["runs"][0]
    shutil.rmtree(run / "predictions")
    again = answer(["calibrate", str(path), "--oracle"], capsys)["runs"][0]
    assert (saved.pop("from_weights"), again.pop("from_weights")) == (False, True)
    assert saved == again
    alone = shutil.copytree(run, tmp_path / "elsewhere" / "runs" / "alone")
    said = complaint(["calibrate", str(alone)], capsys)
    assert "Expected saved logits, or a run inside its cohort" in said
    shutil.rmtree(run / "checkpoints")
    assert "`checkwise verify` says what happened to it" in complaint(
        ["calibrate", str(path)], capsys
    )
