"""The cohorts behind the published numbers open, and give the choices of their day."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import checkwise as cw
from checkwise.study.folder import unpack

ROOT = Path(__file__).parents[1]
PACKED = sorted((ROOT / "studies" / "data").glob("*.tar.xz"))
# What the code of commit 241129f chose (ac-nc), on the day the study was made.
CHOSEN = ROOT / "tests" / "material" / "pacs-frozen-choices.csv"


@pytest.mark.parametrize("file", PACKED, ids=lambda file: file.name.removesuffix(".tar.xz"))
def test_every_packed_cohort_opens(file: Path, tmp_path: Path) -> None:
    unpack(file, tmp_path / "cohort")
    runs = cw.load_runs(tmp_path / "cohort")
    chosen = cw.select_many(runs, "ac-nc", guard=False)
    assert len(chosen) == len(runs) > 0
    if file.name != "pacs-frozen.tar.xz":
        return
    with CHOSEN.open() as rows:
        then = {row["run"]: row for row in csv.DictReader(rows)}
    assert len(then) == len(chosen) == 180
    for key, now in chosen.items():
        row = then[str(key)]
        assert now.step == int(row["step"])
        assert len(now.feasible_steps) == int(row["feasible"])
        assert now.score == pytest.approx(float(row["score"]), abs=1e-12)
        assert now.gap_pp == pytest.approx(float(row["gap_pp"]), abs=1e-9)
