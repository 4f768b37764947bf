"""What rows of ``compare`` need beside logs, and what they cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.calls import answer, heard, refusal, run, said
from tests.study.cohorts import tiny_runs, write_cohort
from tests.study.test_methods import pair, save_logits


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = write_cohort(tmp_path / "tiny", tiny_runs()[:3])
    for place in (folder / "runs").iterdir():
        for step in (100, 200):
            save_logits(place, step, {"art": pair(3, 6), "photo": pair(3, 7)}, "source")
            save_logits(place, step, {"sketch": pair(3, 5)}, "heldout/sketch")
    return folder


def test_compare_shows_needs_and_seconds_where_rows_need_more_than_logs(path: Path) -> None:
    assert (
        run(
            "study",
            "compare",
            path,
            "--rules",
            "ac-nc,ac-nc+ts",
            "--metrics",
            "target_nll,source_nll",
            "--units",
        )
        == 0
    )
    text = heard().out
    needs = next(line for line in text.splitlines() if line.startswith("ac-nc+ts  logits, logs"))
    assert float(needs.split()[-1]) > 0
    assert "source_nll of recalibrated rows are on the examples" in text
    assert "seconds a run" not in said("study", "compare", path, "--rules", "ac-nc")


def test_compare_in_a_scope(path: Path) -> None:
    found = answer("study", "compare", path, "--scope", "hparams-acc")
    assert {row["n"] for row in found["contrasts"]} == {3}
    assert all(row["needs"] == "logs" for row in found["contrasts"])
    assert "run, hparams-acc, hparams-ac" in refusal("study", "compare", path, "--scope", "all")
