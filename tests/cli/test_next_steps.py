"""The end of ``select`` on what people come with: every command runs, and takes the same step."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.cli.hints import CHECKPOINTS, FUNCTION
from checkwise.cli.options import Choosing, Reading
from tests.cli.calls import refusal, said, selection
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
    "logits": ('keep = "none"\nlogits = "source"', "deploy"),
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
    "predictions_one_set": "deploy",
    "predictions_several_sets": "deploy",
    "saved_probabilities": "predict",
    "saturated": "deploy",
    "live_journal": "predict",
    "several_runs": "deploy",
    "log_of_two": "predict",
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("FILE.py").write_text(OUTPUTS)
    return tmp_path


def ending(*words: str) -> tuple[dict[str, Any], list[list[str]], list[str]]:
    """The choice, the words of every command, and the lines that follow the answer."""
    chosen = selection(*words)
    last = said("select", *words).splitlines()[-2:]
    lines = [line.removeprefix("Next: ").partition(" (")[0] for line in last if "Next:" in line]
    assert len(lines) <= 1
    commands = [shlex.split(one) for line in lines for one in line.split(" && ")]
    return chosen, commands, last


def command_of(commands: list[list[str]]) -> str | None:
    """What the commands come to."""
    return commands[-1][1] if commands else None


def run_it(commands: list[list[str]], step: int) -> None:
    """Run commands, with what they ask for filled in; of a model or calibrator compare the step."""
    filled = {FUNCTION: "FILE.py:outputs", CHECKPOINTS: "made"}
    for words in commands:
        said(*(filled.get(word, word) for word in words[1:]))
    *_, last = commands
    out = Path(last[-1])
    if last[1] != "deploy":
        cw.select(cw.load(out))
    elif "--calibrator-only" in last:
        assert json.loads(out.read_text())["step"] == step
    else:
        assert json.loads((out / "deployed.json").read_text())["steps"] == [step]


@pytest.mark.parametrize("name", INPUTS)
def test_the_command_for_every_input_runs_and_takes_the_same_step(name: str, here: Path) -> None:
    path = INPUTS[name](here).relative_to(here)
    Path("made").mkdir()
    Path("made/model-100.pt").touch()
    chosen, commands, _ = ending(str(path), *OPTIONS.get(name, []))
    assert command_of(commands) == COMMAND[name]
    if commands:
        run_it(commands, chosen["step"])


@pytest.mark.parametrize("kept", RECORDS)
def test_the_command_for_a_run_of_checkwise_runs(kept: str, here: Path) -> None:
    records, expected = RECORDS[kept]
    cohort = train_cohort(here, STUDY.format(records=records))
    for path in (cohort, run_folders(cohort)[0]):
        chosen, commands, _ = ending(str(path))
        assert command_of(commands) == expected
        if commands:
            run_it(commands, chosen["step"])


@pytest.mark.parametrize(
    "given",
    [
        ["--rule", "ac-nll", "--delta-pp", "3"],
        ["--held-out", "art"],
        ["--objectives", "nll,ece", "--weights", "photo=2,art=1", "--no-guard"],
        ["--param", "tolerance=paired", "--param", "alpha=0.2"],
    ],
)
def test_options_are_handed_over_by_a_choice(given: list[str], here: Path) -> None:
    path = INPUTS["predictions_with_weights"](here)
    chosen, commands, _ = ending(str(path), *given)
    (first, second) = commands
    assert first == ["checkwise", "select", str(path), *first[3:-2], "-o", "choice.json"]
    assert sorted(first[3:-2]) == sorted(given)
    assert second == ["checkwise", "deploy", "choice.json", "-o", "model"]
    run_it(commands, chosen["step"])


def test_a_folder_around_the_run_is_taken_too(here: Path) -> None:
    for name in ("predictions_one_set", "predictions_with_weights"):
        INPUTS[name](here / "around")
        chosen, commands, _ = ending("around")
        assert commands[0][:3] == ["checkwise", "deploy", "around"]
        run_it(commands, chosen["step"])
        shutil.rmtree("around")


def test_options_are_written_as_commands_take_them() -> None:
    """A flag has no value, a list repeats its option."""
    rule = Choosing(param=("a=1", "b=2"), no_guard=True, delta_pp="1")
    assert rule.words == ["--no-guard", "--delta-pp", "1", "--param", "a=1", "--param", "b=2"]
    assert Reading(only_run="a", n="5").words == ["--n", "5", "--run", "a"]
    assert Reading().words == Choosing().words == []


def test_new_places_are_named_where_old_ones_are_taken(here: Path) -> None:
    path = INPUTS["predictions_with_weights"](here)
    (here / "model").mkdir()
    (here / "model-2").touch()
    path.rename("-x y")
    _, (command,), _ = ending("./-x y")
    assert command == ["checkwise", "deploy", "./-x y", "-o", "model-3"]


def test_a_log_names_its_checkpoints(here: Path) -> None:
    log = INPUTS["keras_log"](here)
    Path("ckpts").mkdir()
    for epoch in range(6):
        Path(f"ckpts/weights.{epoch}.mine").touch()
    _, commands, _ = ending(log.name, "--checkpoints", "ckpts/weights.{epoch}.mine")
    assert commands[0][2] == "ckpts"
    run_it(commands, 0)


def test_groups_are_asked_for_where_they_are_known_or_validation_is_too_easy(here: Path) -> None:
    path = INPUTS["predictions_one_set"](here)
    assert "whole ones" not in ending(str(path))[2][-1]
    for file in path.rglob("*.npz"):
        with np.load(file) as arrays:
            saved = dict(arrays)
        np.savez(file, groups=np.arange(len(saved["labels"])) // 5, **saved)
    _, commands, last = ending(str(path))
    assert command_of(commands) == "deploy"
    assert "whole ones" in last[-1]
    shutil.rmtree(path)
    _, _, last = ending(str(INPUTS["saturated"](here)))
    assert "whole ones" in last[-1]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("predictions_with_weights", ["-o", "model"]),
        ("lightning_folder", ["-o", "model"]),
        ("predictions_one_set", ["--calibrator-only", "-o", "calibrator.json"]),
        ("keras_log", None),
    ],
)
def test_after_a_choice_comes_what_takes_it(name: str, words: list[str] | None, here: Path) -> None:
    path = INPUTS[name](here)
    text = said("select", str(path), "-o", "choice.json")
    lines = [line for line in text.splitlines() if line.startswith("Next: ")]
    commands = [shlex.split(line.removeprefix("Next: ")) for line in lines]
    expected = [] if words is None else [["checkwise", "deploy", "choice.json", *words]]
    assert commands == expected
    if commands:
        run_it(
            commands, json.loads(Path("choice.json").read_text())["runs"][0]["selection"]["step"]
        )


def test_the_best_of_several_paths_is_deployed_by_its_path(here: Path) -> None:
    paths = [str(INPUTS["predictions_one_set"](here / name)) for name in "ab"]
    text = said("select", *paths, "--best")
    (line,) = [line for line in text.splitlines() if line.startswith("Next: ")]
    words = shlex.split(line.removeprefix("Next: ").partition(" (")[0])
    assert (words[2] in paths, "--run" in words) == (True, False)


def test_checkpoints_without_a_log_are_evaluated_first(here: Path) -> None:
    Path("ckpts").mkdir()
    for epoch in (1, 2):
        Path(f"ckpts/model_epoch{epoch}.pt").touch()
    told = " ".join(refusal("select", "ckpts").split())
    assert "ckpts holds 2 checkpoints (model_epoch1.pt …) and no log." in told
    run_it([shlex.split(told.partition("first: ")[2])], 0)
