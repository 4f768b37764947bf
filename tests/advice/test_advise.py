"""``advise`` on what people come with: every command it prints runs, and it says what it is."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

import checkwise as cw
from checkwise.advice import evidence
from checkwise.advice.commands import FUNCTION as TO_FILL_IN
from checkwise.advice.steps import AVERAGE_SOFTENED, SOFTENED
from checkwise.cli import main
from checkwise.errors import InputError
from tests.advice.inputs import FUNCTION, INPUTS
from tests.weights.cohorts import complaint, run_folders, train_cohort

STUDY = """
name = "advised"
role = "development"
[data]
dataset = "RotatedMNIST"
held_out = ["75"]
[network]
kind = "digits"
[runs]
algorithms = ["ERM"]
hparams_seeds = [0]
trial_seeds = [0, 1]
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
    "logits and weights": 'keep = "all"\nlogits = "source"',
    "weights": 'keep = "feasible"\nkeep_delta_pp = 100.0',
    "logits": 'keep = "none"\nlogits = "source"',
    "neither": 'keep = "none"',
}
OPTIONS: dict[str, dict[str, Any]] = {"full_table": {"held_out": "sketch"}}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("FILE.py").write_text(FUNCTION)
    return tmp_path


@pytest.fixture(scope="session")
def cohorts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same two runs with everything kept; what a case does not keep is taken away."""
    return {
        name: train_cohort(tmp_path_factory.mktemp("advised"), STUDY.format(records=records))
        for name, records in RECORDS.items()
    }


def run_each(advice: cw.advice.Advice, capsys: pytest.CaptureFixture[str]) -> None:
    """Every step by itself, from a folder in which no other step has written anything."""
    before = set(os.listdir())
    for step in advice.steps:
        assert step.commands
        for command in step.commands:
            words = shlex.split(command.replace(TO_FILL_IN, "FILE.py:outputs"))
            assert words[0] == "checkwise"
            with pytest.raises(SystemExit) as stop:
                main(words[1:])
            printed = capsys.readouterr()
            assert stop.value.code == 0, f"{command}: {printed.err}"
        for name in set(os.listdir()) - before:
            shutil.rmtree(name) if Path(name).is_dir() else Path(name).unlink()


@pytest.mark.parametrize("name", INPUTS)
def test_every_command_for_every_input_runs(
    name: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = INPUTS[name](here).relative_to(here)
    advice = cw.advise(path, **OPTIONS.get(name, {}))
    run_each(advice, capsys)
    assert any("hold out whole groups" in sentence for sentence in advice.cannot_know)
    assert all(step.fill_in for step in advice.steps if TO_FILL_IN in str(step.commands))


@pytest.mark.parametrize("kept", RECORDS)
def test_every_command_for_a_run_of_checkwise_runs(
    kept: str, cohorts: dict[str, Path], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cohort = cohorts[kept]
    for path in (cohort, run_folders(cohort)[0]):
        advice = cw.advise(path)
        run_each(advice, capsys)
        titles = " ".join(step.title for step in advice.steps)
        assert ("Deploy" in titles) == ("weights" in kept)
        assert ("often" in titles) == (kept != "neither")
    logits = {"logits and weights": "saved", "logits": "saved", "weights": "from weights"}
    assert advice.situation.logits == logits.get(kept, "none")


def expected(advice: cw.advice.Advice) -> list[float]:
    return [0.0 if step.expected is None else step.expected for step in advice.steps]


@pytest.mark.parametrize("name", [name for name in INPUTS if name != "saturated"])
def test_steps_come_in_order_of_expected_gain(name: str, here: Path) -> None:
    advice = cw.advise(INPUTS[name](here), **OPTIONS.get(name, {}))
    recipes = [step.recipe for step in advice.steps]
    if {AVERAGE_SOFTENED, SOFTENED} <= set(recipes):  # not shown to be better than the simpler one
        assert recipes.index(AVERAGE_SOFTENED) == recipes.index(SOFTENED) + 1
    gains = [
        gain
        for gain, recipe in zip(expected(advice), recipes, strict=True)
        if recipe != AVERAGE_SOFTENED
    ]
    assert gains == sorted(gains)
    assert len(gains) >= 1


def test_saturated_validation_puts_the_earliest_feasible_first(here: Path) -> None:
    advice = cw.advise(INPUTS["saturated"](here))
    assert advice.situation.errors == 2
    assert advice.situation.examples == 258
    first = advice.steps[0]
    assert first.commands[0].endswith("--rule ac-early")
    assert "not to be trusted" in first.why[0]
    assert any("Quoted from" in sentence for sentence in first.why)
    averages = [step for step in advice.steps if "--average" in step.commands[-1]]
    assert all("may do harm" in " ".join(step.why) for step in averages)


def test_what_is_there_is_what_is_said(here: Path) -> None:
    log = cw.advise(INPUTS["keras_log"](here)).situation
    assert (log.kind, log.logits, log.with_weights, log.errors) == ("log or table", "none", 0, None)
    assert log.metrics == ("accuracy", "nll")
    counted = cw.advise(here / "training.log", n=1000)
    assert (counted.situation.examples, counted.situation.errors) == (1000, 100)
    assert all("--n 1000" in command for command in counted.commands)
    folder = cw.advise(INPUTS["transformers_folder"](here)).situation
    assert (folder.near_best, folder.with_weights, folder.logits) == (4, 4, "none")
    live = cw.advise(INPUTS["live_journal"](here)).situation
    assert (live.near_best, live.with_weights, live.errors) == (4, 4, 100)


def test_averages_are_not_offered_without_weights(here: Path) -> None:
    advice = cw.advise(INPUTS["predictions_one_set"](here))
    assert not any("--average" in command for command in advice.commands)
    assert "weights" in str(advice)


def test_new_places_are_named_where_old_ones_are_taken(here: Path) -> None:
    path = INPUTS["predictions_with_weights"](here)
    (here / "model").mkdir()
    (here / "model-2").touch()
    assert all("model-3" in command for command in cw.advise(path).commands if "deploy" in command)


def test_json_holds_what_the_text_says(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = INPUTS["predictions_with_weights"](here)
    with pytest.raises(SystemExit) as stop:
        main(["advise", str(path), "--json"])
    assert stop.value.code == 0
    record = json.loads(capsys.readouterr().out)
    advice = cw.advise(path)
    assert record == json.loads(json.dumps(advice.to_json()))
    assert record["schema"] == 1
    for step in record["steps"]:
        assert {"title", "commands", "evidence", "fill_in", "why"} <= set(step)
        for effect in step["evidence"]:
            assert effect["role"] in ("evaluation", "development", "independent")
            assert (effect["role"] == "independent") == bool(effect["quoted"])
            assert effect["text"] in str(advice)
    with pytest.raises(SystemExit):
        main(["advise", str(path)])
    printed = capsys.readouterr().out
    assert all(command in printed for command in advice.commands)


def test_what_is_wrong_is_refused_in_a_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nothing at" in complaint(["advise", "nowhere"], capsys)
    Path("empty").mkdir()
    assert "holds none of these" in complaint(["advise", "empty"], capsys)
    INPUTS["log_of_two"](here)
    assert "Expected a run called 'x'" in complaint(["advise", "two.csv", "--run", "x"], capsys)
    with pytest.raises(InputError):
        cw.advise("two.csv", held_out="no such set")


def test_every_recipe_has_a_figure_of_ours_and_its_role() -> None:
    known = evidence.read()
    recipes = {effect.recipe for effect in known.effects}
    assert recipes == set(known.expected)
    for recipe in recipes:
        ours = [effect for effect in known.of(recipe) if not effect.quoted]
        assert ours
        first = known.of(recipe)[0]
        assert not first.quoted  # ours come before what is quoted
    assert {effect.role for effect in known.effects if not effect.quoted} == {
        "evaluation",
        "development",
    }


def test_nothing_held_out_is_opened(cohorts: dict[str, Path], here: Path) -> None:
    cohort = Path(shutil.copytree(cohorts["weights"], here / "copy"))
    for path in cohort.rglob("heldout"):
        shutil.rmtree(path)
    before = {path: path.read_bytes() for path in cohort.rglob("*") if path.is_file()}
    cw.advise(cohort)
    assert before == {path: path.read_bytes() for path in cohort.rglob("*") if path.is_file()}


def _live(root: Path, suffix: str, **settings: Any) -> Path:
    with cw.LiveSelector(journal=root / "checkwise.jsonl", **settings) as live:
        for k, (accuracy, nll) in enumerate(((0.900, 0.5), (0.880, 0.3), (0.899, 0.6)), 1):
            live.add(
                k, {"validation": {"accuracy": accuracy, "nll": nll, "cwece": 0.01, "n": 1000}}
            )
            (root / f"step-{k}{suffix}").write_bytes(b"weights")
            live.saved(k, root / f"step-{k}{suffix}")
    return root


def test_only_weights_that_deploy_reads_are_deployed(here: Path) -> None:
    advice = cw.advise(_live(here / "run", ".keras"))
    assert not any(command.startswith("checkwise deploy") for command in advice.commands)
    assert "load_chosen" in str(advice)
    assert "docs/keras.md" in str(advice)
    assert "no weights of PyTorch" not in str(advice)


def test_checkpoints_that_are_gone_are_not_counted_as_near_the_best(here: Path) -> None:
    run = _live(here / "run", ".pt")
    assert "3 checkpoints on 1 validation set" in cw.advise(run).situation.sentence
    (run / "step-3.pt").unlink()
    said = cw.advise(run).situation.sentence
    assert "2 checkpoints kept of 3 on 1 validation set" in said
    assert "1 of those kept within 1 point of the best accuracy" in said


def test_predictions_are_deployed_by_the_rule_that_the_run_was_trained_with(here: Path) -> None:
    advice = cw.advise(_live(here / "run", ".pt", delta_pp=3))
    assert advice.situation.step == 2
    deploys = [step.commands[-1] for step in advice.steps if len(step.commands) == 2]
    assert any("--rule ac-nc --delta-pp 3" in command for command in deploys)


def test_settings_of_calibration_errors_stand_in_the_commands(here: Path) -> None:
    path = INPUTS["predictions_with_weights"](here)
    with_bins = cw.advise(path, bins=2, bandwidth=0.5)
    assert with_bins.situation.step == cw.select(cw.load(path, bins=2, bandwidth=0.5)).step
    assert all("--bins 2 --bandwidth 0.5" in command for command in with_bins.commands)


def test_paths_that_look_like_options_or_words_to_fill_in_are_paths(here: Path) -> None:
    path = INPUTS["predictions_with_weights"](here)
    path.rename("-FOLDERx")
    advice = cw.advise("-FOLDERx")
    assert all("./-FOLDERx" in command for command in advice.commands)
    assert not any(step.fill_in for step in advice.steps)
