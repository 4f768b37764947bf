"""`--tolerance`, `--alpha`, `--planned` and `--sure` on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from tests.cli.test_select import TABLE, answer, run
from tests.selection.example_runs import outputs


@pytest.fixture(scope="module")
def predictions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("predictions")
    for step, domains in outputs(0, steps=6, sizes=(40, 50), gain=0.5, grouped=True).items():
        folder = path / f"step-{step:06d}"
        folder.mkdir()
        for name, (z, y, g) in domains.items():
            np.savez(folder / f"{name}.npz", logits=z, labels=y, groups=g)
    return path


@pytest.mark.parametrize("name", ["paired", "mcs", "certified", "1se"])
def test_the_command_chooses_as_python_does(
    predictions: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    said = answer(capsys, "select", predictions, "--tolerance", name)
    chosen = cw.select(cw.load(predictions), tolerance=name)
    assert said["step"] == chosen.step
    assert said["feasible_steps"] == list(chosen.feasible_steps)
    assert said["tolerance"] == name
    assert said["digest"] == chosen.digest


def test_alpha_and_planned_reach_the_tolerance(
    predictions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("select", predictions, "--tolerance", "paired", "--alpha", "0.2", "--planned", "6")
    said = answer(capsys, *asked)
    assert (said["alpha"], said["planned"]) == (0.2, 6)
    expected = cw.select(cw.load(predictions), tolerance="paired", alpha=0.2, planned=6)
    assert said["feasible_steps"] == list(expected.feasible_steps)


def test_sure_says_how_often_and_what_would_help(
    predictions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sure = cw.select(cw.load(predictions)).sureness
    assert run("select", predictions, "--sure") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "How sure: Step" in said
    assert sure.advice in said
    assert answer(capsys, "select", predictions, "--sure")["sureness"] == sure.as_dict()
    assert "sureness" not in answer(capsys, "select", predictions)


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        (("--tolerance", "mcs"), {"tolerance": "mcs"}),
        (
            ("--tolerance", "certified", "--delta-pp", "5"),
            {"tolerance": "certified", "delta_pp": 5},
        ),
        (("--rule", "ac-nc-crossfit"), {"rule": "ac-nc-crossfit"}),
    ],
)
def test_sure_is_the_whole_rule_with_its_tolerance(
    predictions: Path,
    capsys: pytest.CaptureFixture[str],
    asked: tuple[str, ...],
    options: dict[str, Any],
) -> None:
    sure = cw.select(cw.load(predictions), **options).sureness
    said = answer(capsys, "select", predictions, *asked, "--sure")
    assert said["sureness"] == sure.as_dict()
    assert run("select", predictions, *asked, "--sure") == 0
    assert sure.advice in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--tolerance", "paired"), "this run carries metrics alone"),
        (("--tolerance", "loose"), "one of fixed, paired, mcs, certified, 1se"),
        (("--planned", "5"), "only 'paired' shares alpha"),
        (("--sure",), "every validation example"),
    ],
)
def test_what_cannot_be_said_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], expected: str
) -> None:
    table = tmp_path / "run.csv"
    table.write_text(TABLE)
    assert run("select", table, *options) == 2
    said = capsys.readouterr().err
    assert expected in said
    assert "Traceback" not in said
