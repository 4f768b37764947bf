"""The parameters tolerance and alpha, and `--sure`, on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from tests.cli.calls import heard, otherwise, run, selection
from tests.cli.test_select import TABLE
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


def test_the_command_chooses_as_python_does(predictions: Path) -> None:
    said = selection(predictions, "--param", "tolerance=paired")
    chosen = cw.select(cw.load(predictions), tolerance="paired")
    assert said["step"] == chosen.step
    assert said["feasible_steps"] == list(chosen.feasible_steps)
    assert said["tolerance"] == "paired"
    assert said["digest"] == chosen.digest


def test_alpha_reaches_the_tolerance(predictions: Path) -> None:
    said = selection(predictions, "--param", "tolerance=paired", "--param", "alpha=0.2")
    assert said["alpha"] == 0.2
    expected = cw.select(cw.load(predictions), tolerance="paired", alpha=0.2)
    assert said["feasible_steps"] == list(expected.feasible_steps)


def test_sure_says_how_often_and_what_would_help(predictions: Path) -> None:
    sure = cw.select(cw.load(predictions)).sureness
    assert run("select", predictions, "--sure") == 0
    said = " ".join(heard().out.split())
    assert "How sure: Step" in said
    assert sure.advice in said
    assert selection(predictions, "--sure")["sureness"] == sure.as_dict()
    assert "sureness" not in selection(predictions)


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        (
            ("--param", "tolerance=paired", "--delta-pp", "5"),
            {"tolerance": "paired", "delta_pp": 5},
        ),
        (("--rule", "ac-nll"), {"rule": "ac-nll"}),
    ],
)
def test_sure_is_the_whole_rule_with_its_tolerance(
    predictions: Path, asked: tuple[str, ...], options: dict[str, Any]
) -> None:
    sure = cw.select(cw.load(predictions), **options).sureness
    said = selection(predictions, *asked, "--sure")
    assert said["sureness"] == sure.as_dict()
    assert run("select", predictions, *asked, "--sure") == 0
    assert sure.advice in " ".join(heard().out.split())


REFUSED = {
    "--param tolerance=paired": "this run carries metrics alone",
    "--param tolerance=loose": "one of fixed, paired",
    "--param tolerance=": "one of fixed, paired",
    "--rule ac-nc-paired": "--param tolerance=paired",
    "--param tolerance=paired --param alpha=0": "above 0 and below 1",
    "--sure": "every validation example",
}


def test_what_cannot_be_said_is_refused_in_one_line(tmp_path: Path) -> None:
    table = tmp_path / "run.csv"
    table.write_text(TABLE)
    assert not otherwise(
        {f"select TABLE {words}": said for words, said in REFUSED.items()}, TABLE=table
    )


def test_the_bound_has_the_level_of_the_tolerance(predictions: Path) -> None:
    asked = ("--param", "tolerance=paired", "--param", "alpha=0.1")
    assert selection(predictions, *asked)["guarantee"]["alpha"] == 0.1
    assert selection(predictions)["guarantee"]["alpha"] == 0.05


def test_sure_says_that_deleted_checkpoints_cannot_be_drawn(tmp_path: Path) -> None:
    with cw.LiveSelector("ac-nc", journal=tmp_path / "checkwise.jsonl", predictions=True) as live:
        for step, domains in outputs(0, steps=6, sizes=(40, 50), gain=0.5).items():
            live.add(step, domains)
            weights = tmp_path / f"{step}.pt"
            weights.touch()
            live.saved(step, weights)
        live.prune()
    kept = len([*tmp_path.glob("*.pt")])
    assert kept < 6
    assert run("select", tmp_path, "--sure") == 0
    said = " ".join(heard().out.split())
    assert f"choose among the {kept} checkpoint" in said
    assert "kept of 6: on other examples a deleted one might" in said
