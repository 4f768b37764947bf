"""The end of ``select`` on what people come with: every command runs, and takes the same step."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import checkwise as cw
from checkwise.cli import app, main
from checkwise.cli.input_options import InputOptions
from checkwise.cli.next_steps import CHECKPOINTS, FUNCTION
from checkwise.cli.rule_options import RunRuleOptions
from tests.cli.inputs import INPUTS, OUTPUTS
from tests.weights.cohorts import run_folders, train_cohort

STUDY = """
name = "next"
role = "development"
[data]
dataset = "RotatedMNIST"
held_out = ["75"]
[network]
kind = "digits"
[runs]
algorithms = ["ERM"]
hparams_seeds = [0]
trial_seeds = [0]
[training]
steps = 27
record_every = 13
[records]
{records}
[hparams]
batch_size = 8
lr = 0.003
"""
RECORDS = {
    "logits and weights": ('keep = "all"\nlogits = "source"', "deploy"),
    "weights": ('keep = "feasible"\nkeep_delta_pp = 100.0', None),
    "logits": ('keep = "none"\nlogits = "source"', "calibrate"),
    "neither": ('keep = "none"', None),
}
OPTIONS: dict[str, list[str]] = {
    "full_table": ["--held-out", "sketch"],
    "several_runs": ["--run", "first/predictions"],
    "log_of_two": ["--run", "two-unknown-none-h0-t1"],
}
COMMAND = {
    "keras_log": "predict",
    "accuracy_table": "predict",
    "full_table": "predict",
    "loss_log": None,
    "domainbed_log": "predict",
    "transformers_folder": "predict",
    "lightning_folder": "predict",
    "predictions_with_weights": "deploy",
    "predictions_one_set": "calibrate",
    "predictions_several_sets": "calibrate",
    "saved_probabilities": "predict",
    "saturated": "deploy",
    "live_journal": "predict",
    "several_runs": None,
    "log_of_two": "predict",
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("FILE.py").write_text(OUTPUTS)
    return tmp_path


def run(*words: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*words])
    assert stop.value.code == 0, words


def ending(
    capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[dict[str, Any], list[str], list[str]]:
    """The choice, the words of the commands, and the other lines that follow the answer."""
    capsys.readouterr()
    run("select", *words, "--json")
    chosen = json.loads(capsys.readouterr().out)
    run("select", *words)
    last = capsys.readouterr().out.splitlines()[-2:]
    commands = [line.removeprefix("Next: ").partition(" (")[0] for line in last if "Next:" in line]
    assert len(commands) <= 1
    return chosen, [word for line in commands for word in shlex.split(line)], last


def run_it(command: list[str], step: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Run a command, with what it asks for filled in; of a model or calibrator compare the step."""
    filled = {FUNCTION: "FILE.py:outputs", CHECKPOINTS: "made"}
    run(*(filled.get(word, word) for word in command[1:]))
    out = Path(command[-1])
    if command[1] == "deploy":
        assert json.loads((out / "deployed.json").read_text())["steps"] == [step]
    elif command[1] == "calibrate":
        assert f"step {step}." in capsys.readouterr().out
    else:
        cw.select(cw.load(out))


@pytest.mark.parametrize("name", INPUTS)
def test_the_command_for_every_input_runs_and_takes_the_same_step(
    name: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = INPUTS[name](here).relative_to(here)
    Path("made").mkdir()
    Path("made/model-100.pt").touch()
    chosen, command, _ = ending(capsys, str(path), *OPTIONS.get(name, []))
    assert (command[1] if command else None) == COMMAND[name]
    if command:
        run_it(command, chosen["step"], capsys)


@pytest.mark.parametrize("kept", RECORDS)
def test_the_command_for_a_run_of_checkwise_runs(
    kept: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records, expected = RECORDS[kept]
    cohort = train_cohort(here, STUDY.format(records=records))
    for path in (cohort, run_folders(cohort)[0]):
        chosen, command, _ = ending(capsys, str(path))
        assert (command[1] if command else None) == expected
        if command:
            run_it(command, chosen["step"], capsys)


@pytest.mark.parametrize(
    "given",
    [
        ["--rule", "ac-nll", "--delta-pp", "3"],
        ["--bins", "2", "--bandwidth", "0.5", "--held-out", "art"],
        ["--objectives", "nll,ece", "--weights", "photo=2,art=1", "--no-guard"],
        ["--alpha", "0.1", "--guarantee"],
        ["--tolerance", "paired", "--alpha", "0.2"],
    ],
)
def test_the_command_chooses_with_the_same_options(
    given: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = INPUTS["predictions_with_weights"](here)
    chosen, command, _ = ending(capsys, str(path), *given)
    assert command[1] == "deploy"
    run_it(command, chosen["step"], capsys)


def test_nothing_is_printed_that_a_folder_around_the_run_would_not_take(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    INPUTS["predictions_one_set"](here / "around")
    assert ending(capsys, "around")[1] == []
    shutil.rmtree("around")
    Path("around").mkdir()
    INPUTS["predictions_with_weights"](here / "around")
    chosen, command, _ = ending(capsys, "around")
    assert command[:3] == ["checkwise", "deploy", "around"]
    run_it(command, chosen["step"], capsys)


def test_options_are_written_as_commands_take_them() -> None:
    """A field has the name of its option; a flag has no value, a list repeats its option."""
    group: Any = typer.main.get_command(app)
    options = {name for one in group.commands["deploy"].params for name in one.opts}
    for fields in (RunRuleOptions, InputOptions):
        for field in fields.__dataclass_fields__:
            assert f"--{field.removeprefix('only_').replace('_', '-')}" in options
    rule = RunRuleOptions(param=["a=1", "b=2"], pareto=True, q="1")
    assert rule.words == ["--q", "1", "--pareto", "--param", "a=1", "--param", "b=2"]
    assert InputOptions(only_run="a", n="5").words == ["--n", "5", "--run", "a"]
    assert InputOptions().words == RunRuleOptions().words == []


def test_new_places_are_named_where_old_ones_are_taken(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = INPUTS["predictions_with_weights"](here)
    (here / "model").mkdir()
    (here / "model-2").touch()
    path.rename("-x y")
    _, command, _ = ending(capsys, "./-x y")
    assert command == ["checkwise", "deploy", "./-x y", "-o", "model-3"]


def test_a_log_names_its_checkpoints(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = INPUTS["keras_log"](here)
    Path("ckpts").mkdir()
    for epoch in range(6):
        Path(f"ckpts/weights.{epoch}.mine").touch()
    _, command, _ = ending(capsys, log.name, "--checkpoints", "ckpts/weights.{epoch}.mine")
    assert command[2] == "ckpts"
    run_it(command, 0, capsys)


def test_groups_are_asked_for_where_they_are_known_or_validation_is_too_easy(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = INPUTS["predictions_one_set"](here)
    assert "whole ones" not in ending(capsys, str(path))[2][-1]
    for file in path.rglob("*.npz"):
        with np.load(file) as arrays:
            saved = dict(arrays)
        np.savez(file, groups=np.arange(len(saved["labels"])) // 5, **saved)
    _, command, last = ending(capsys, str(path))
    assert command[1] == "calibrate"
    assert "whole ones" in last[-1]
    shutil.rmtree(path)
    _, _, last = ending(capsys, str(INPUTS["saturated"](here)))
    assert "whole ones" in last[-1]
