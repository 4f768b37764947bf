"""Calibrating runs that kept their weights but not their logits."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import checkwise as cw
from checkwise.store import checkpoint_file
from tests.commands import answer, complaint
from tests.refusals import refused
from tests.sweep.studies import tiny
from tests.weights.cohorts import copied, run_folders, train_cohort

STUDY = tiny(
    ('["0", "75"]', '["0"]'),
    ('["ERM", "VREx"]', '["ERM"]'),
    ("steps = 5", "steps = 9"),
    ("record_every = 2", "record_every = 4"),
    ("batch_size = 8", "batch_size = 8\nlr = 0.003"),
    ("[hparams]", '[records]\nkeep = "all"\nlogits = "all"\n[hparams]'),
)


def test_logits_that_were_not_saved_are_made_again_from_the_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = train_cohort(tmp_path, STUDY)
    (run,) = (path / "runs").iterdir()
    words = ["--calibrator-only", "--force", "-o", str(tmp_path / "c.json")]
    saved = answer(capsys, "deploy", str(run), *words)
    lacking = run_folders(copied(path, tmp_path))[0]
    (lacking / checkpoint_file(cw.select(cw.load(run)).step)).unlink()
    with refused('missing: weights of step … keep = "all"'):
        cw.deploy(lacking, tmp_path / "model")
    shutil.rmtree(run / "predictions")
    again = answer(capsys, "deploy", str(run), *words)
    assert saved == again
    alone = shutil.copytree(run, tmp_path / "elsewhere" / "runs" / "alone")
    assert "study" in complaint(capsys, "deploy", str(alone), *words)
    shutil.rmtree(run / "checkpoints")
    said = complaint(capsys, "deploy", str(run), *words)
    assert "`checkwise study status --verify`" in said
