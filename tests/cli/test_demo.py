"""``checkwise demo`` after training: tables, meaning, a model, the page; and how it stops."""

from __future__ import annotations

import re
import shutil
import webbrowser
from pathlib import Path
from typing import Any

import pytest

from checkwise.cli import demo
from checkwise.deployed import load
from checkwise.selection import select
from checkwise.study import Cohort, sentences
from checkwise.study.report import STAGES
from checkwise.study.sweep import ExecutorSettings, Study, SweepResult
from tests.cli.calls import heard, run, said
from tests.weights.cohorts import train_cohort

# The demo's own study, cut short.
STUDY = """
name = "short"
role = "development"
[data]
dataset = "RotatedMNIST"
held_out = ["0", "75"]
[network]
kind = "digits"
[runs]
algorithms = ["ERM"]
hparams_seeds = [0]
trial_seeds = [0]
[training]
steps = 40
record_every = 4
[records]
keep = "feasible"
[hparams]
batch_size = 16
"""


def test_the_demo_chooses_averages_calibrates_deploys_and_says_where_the_page_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    out = tmp_path / "cohort"

    def train(study: Study, out: Path, _: object, settings: ExecutorSettings) -> SweepResult:
        asked.append((study.name, settings.workers))
        if not out.exists():
            assert train_cohort(tmp_path, STUDY) == out
        return SweepResult((), interrupted=0)

    monkeypatch.setattr(demo, "run_study", train)
    text = said("demo", "--out", out, "--workers", 2)
    assert asked == [("demo", 2)]
    assert "on rotations that training never saw, against source-acc" in text
    assert text.index("One run explained") < text.index("From a choice to a model")
    assert all(re.search(rf"^{stage.title} +target NLL", text, re.MULTILINE) for stage in STAGES)
    assert f"The page is {out / 'report.html'}\nOn your own run: checkwise select" in text
    page = (out / "report.html").read_text()
    assert all(stage.title in page and stage.what in page for stage in STAGES)
    (printed,) = re.findall(r"checkwise (deploy .* --average 5 -o) ", text)
    assert run(*printed.split(), tmp_path / "by-hand") == 0
    deployed = load(tmp_path / "cohort-model")
    assert deployed.info["rule"] == "ac-early"
    assert deployed.calibrator is not None
    assert deployed.calibrator.name == "ts-soften"
    # The page shows what compare shows.
    table = Cohort.open(out).compare([stage.row for stage in STAGES], metrics=["target_nll"])
    for mean in table["mean"]:
        assert sentences.shown(mean, "target_nll", signed=True) in page
    monkeypatch.chdir(out)
    assert run("demo", "--out", ".", "--workers", 2) == 0  # replaces its own model
    assert (tmp_path / "cohort-model" / "card.md").is_file()
    heard()
    # On the same runs: the quick one draws the first and names the next step.
    shutil.rmtree(tmp_path / "cohort-model")
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    text = said("demo", "--quick", "--out", out, "--workers", 2, "--open")
    assert asked[-1] == ("demo-quick", 2)
    cohort = Cohort.open(out)
    assert f"tep {select(cohort.usable[min(cohort.usable)], 'ac-nc').step}" in text
    assert not (tmp_path / "cohort-model").exists()
    assert opened == [(out / "report.html").as_uri()]
    (deploy,) = re.findall(r"checkwise (deploy .*) -o model", text)
    assert run(*deploy.split(), "-o", tmp_path / "model") == 0


def test_a_place_for_the_model_that_is_taken_is_refused_before_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[Path] = []

    def train(study: Study, out: Path, *_: object) -> SweepResult:
        trained.append(out)
        return SweepResult((), interrupted=2)

    monkeypatch.setattr(demo, "run_study", train)
    (tmp_path / "here").mkdir()
    (tmp_path / "here-model").mkdir()
    (tmp_path / "here-model" / "mine.txt").write_text("mine")
    monkeypatch.chdir(tmp_path / "here")
    for out in (".", "../here", tmp_path / "here"):
        assert run("demo", "--out", out) == 2
        assert re.search(r"here-model, .* with --out", heard().err)
    assert trained == []
    assert run("demo", "--quick", "--out", ".") == 130  # deploys nothing
    (tmp_path / "here-model" / "mine.txt").unlink()
    assert run("demo", "--out", ".") == 130
    assert len(trained) == 2


@pytest.mark.parametrize(
    ("out", "place"),
    [(".", "../here-model"), ("..", "../../all-model"), ("x/demo", "x/demo-model")],
)
def test_the_model_goes_beside_the_runs(
    out: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "all" / "here").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "all" / "here")
    assert demo._model_place(Path(out)).resolve() == Path(place).resolve()


def test_an_interrupted_demo_ends_with_the_sweeps_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "run_study", lambda *_: SweepResult((), interrupted=2))
    assert run("demo", "--out", tmp_path / "d") == 130
    assert not (tmp_path / "d").exists()
