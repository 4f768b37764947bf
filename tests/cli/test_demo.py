"""``checkwise demo`` after training: table, meaning, page; and how it stops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checkwise.cli import demo, main, sweep
from tests.study.cohorts import tiny_runs, write_cohort


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert isinstance(stop.value.code, int)
    return stop.value.code


def test_the_demo_compares_says_what_it_means_and_where_the_page_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def train(study: str, *, out: Path, workers: int | None) -> int:
        asked.append((study, workers))
        write_cohort(out, tiny_runs()[:3])
        return 0

    monkeypatch.setattr(sweep, "command", train)
    assert run("demo", "--out", tmp_path / "d", "--workers", 2) == 0
    said = capsys.readouterr().out
    assert asked == [("demo", 2)]
    assert all(rule in said for rule in demo.RULES)
    assert "On rotations that training never saw: Against source-acc, ac-nc changed" in said
    assert "NLL was lower in 2, equal in 1 and higher in 0 of 3 runs" in said
    assert said.rstrip().endswith(str(tmp_path / "d" / "report.html"))
    assert (tmp_path / "d" / "report.html").is_file()


def test_an_interrupted_demo_ends_with_the_sweeps_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "command", lambda *args, **options: 130)
    assert run("demo", "--out", tmp_path / "d") == 130
    assert not (tmp_path / "d").exists()
