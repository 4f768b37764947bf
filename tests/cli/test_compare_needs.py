"""What rows of ``compare`` need beside logs, and what they cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checkwise.cli import main
from tests.study.cohorts import tiny_runs, write_cohort
from tests.study.test_methods import pair, save_logits


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert isinstance(stop.value.code, int)
    return stop.value.code


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = write_cohort(tmp_path / "tiny", tiny_runs()[:3])
    for place in (folder / "runs").iterdir():
        for step in (100, 200):
            save_logits(place, step, {"art": pair(3, 6), "photo": pair(3, 7)}, "source")
            save_logits(place, step, {"sketch": pair(3, 5)}, "heldout/sketch")
    return folder


def test_compare_shows_needs_and_seconds_where_rows_need_more_than_logs(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    said = capsys.readouterr().out
    needs = next(line for line in said.splitlines() if line.startswith("ac-nc+ts  logits, logs"))
    assert float(needs.split()[-1]) > 0
    assert "source_nll of recalibrated rows are on the examples" in said
    assert run("study", "compare", path, "--rules", "ac-nc") == 0
    assert "seconds a run" not in capsys.readouterr().out


def test_compare_in_a_scope(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("study", "compare", path, "--scope", "hparams-acc", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["n"] for row in found["contrasts"]} == {3}
    assert all(row["needs"] == "logs" for row in found["contrasts"])
    assert run("study", "compare", path, "--scope", "all") == 2
    assert "run, hparams-acc, hparams-ac" in capsys.readouterr().err
