"""``--constraint``, ``--delta``, ``--direction`` and ties on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.calls import heard, otherwise, refusal, run, said, selection
from tests.refusals import names

TABLE = """step,accuracy,f1,nll,latency,oddness,n
100,0.900,0.80,0.70,3,1,1000
200,0.895,0.90,0.40,2,2,1000
300,0.850,0.897,0.35,1,3,1000
400,0.850,0.897,0.35,1,3,1000
"""
LOG = """epoch,loss,val_loss,val_f1
0,0.9,0.8,0.90
1,0.5,0.4,0.897
2,0.3,0.3,0.70
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "run.csv"
    path.write_text(TABLE)
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log without accuracy."""
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    return path


def test_near_best_on_one_score_then_best_on_others(table: Path) -> None:
    asked = ("--constraint", "f1", "--delta", "0.5%", "--objectives", "nll,latency")
    found = selection(table, *asked)
    assert (found["rule"], found["step"]) == ("ac", 300)
    assert found["feasible_steps"] == [200, 300, 400]
    assert found["constraint"] == {
        "metric": "f1",
        "direction": "higher",
        "value": 0.897,
        "best": 0.9,
        "gap": pytest.approx(0.003),
        "delta": "0.5%",
    }
    assert found["accuracy"] == 0.85
    assert found["guarantee"]["bound_pp"] is None
    assert selection(table, "--rule", "ac", *asked)["step"] == 300
    text = said("select", table, *asked)
    assert text.startswith("Use step 300.")
    assert "0.003 below the best (0.9 at step 200)" in text
    assert "3 of 4 checkpoints are within 0.5% of the best" in text


def test_a_tolerance_in_the_units_of_the_score(table: Path) -> None:
    found = selection(table, "--constraint", "f1", "--delta", "0.002", "--objectives", "nll")
    assert (found["step"], found["params"]["delta"]) == (200, 0.002)
    of_accuracy = selection(table, "--rule", "ac-nll", "--delta", "0.005")
    assert of_accuracy["feasible_steps"] == [100, 200]
    assert of_accuracy["guarantee"]["bound_pp"] is not None


def test_a_tolerance_in_points_is_a_number_in_json(table: Path) -> None:
    found = selection(table, "--rule", "ac-nll", "--delta-pp", "0.5")
    assert found["params"]["delta_pp"] == 0.5
    assert found["feasible_steps"] == [100, 200]


def test_a_constraint_alone_takes_the_usual_objectives_and_says_so(table: Path) -> None:
    text = said("select", table, "--constraint", "f1", "--delta", "0.5%")
    assert "nll is used" in text


def test_ties(table: Path) -> None:
    asked = ("--constraint", "f1", "--delta", "1%", "--objectives", "nll")
    for ties, step in (("earliest", 300), ("latest", 400), ("accuracy", 300)):
        assert selection(table, *asked, "--param", f"ties={ties}")["step"] == step
    assert "Exactly tied with step 300; broken by the later step." in said(
        "select", table, *asked, "--param", "ties=latest"
    )


def test_a_direction_is_asked_for_and_taken(table: Path) -> None:
    asked = ("--constraint", "f1", "--delta", "1%", "--objectives", "oddness")
    assert names("--direction … oddness=higher … oddness=lower", refusal("select", table, *asked))
    assert selection(table, *asked, "--direction", "oddness=higher")["step"] == 300
    assert selection(table, *asked, "--direction", "oddness=lower")["step"] == 200


REFUSED = {
    "--constraint f1": "f1",
    "--constraint f1 --delta-pp 1": "use --delta 0.5%",
    "--delta 1% --delta-pp 1": "one tolerance",
    "--delta many": "delta … 'many'",
    "--delta 200%": "0% … 100%",
    "--constraint f2 --delta 1%": "'f2'",
    "--param ties=newest": "earliest, latest … accuracy",
    "--rule ac-early --param ties=latest": "ac-early … 'ties'",
    "--direction f1": "--direction … NAME=higher … NAME=lower … 'f1'",
    "--direction f1=up": "direction … f1 … 'up'",
    "--direction nll=higher": "lower … nll",
    "--rule ac-ncl": "ac-nc",
}


def test_what_does_not_fit_is_one_line(table: Path) -> None:
    assert not otherwise(
        {f"select TABLE {words}": said for words, said in REFUSED.items()}, TABLE=table
    )


def test_a_log_without_accuracy_is_chosen_from_by_its_loss(log: Path) -> None:
    log.write_text(LOG.replace("val_f1", "val_rate"))
    found = selection(log)
    assert (found["rule"], found["step"]) == ("pure-nll", 2)
    assert (found["accuracy"], found["gap_pp"]) == (None, None)
    assert found["rule_reason"] == "there is no accuracy"
    text = said("select", log)
    assert text.startswith("Use step 2 (3 in names of checkpoints).")
    assert ["loss", "0.3", "the", "best", "of", "3", "checkpoints"] in [
        line.split() for line in text.splitlines()
    ]
    assert "There is no accuracy" in text
    assert "nan" not in text


def test_a_log_without_accuracy_is_chosen_from_by_its_score(log: Path) -> None:
    found = selection(log)
    assert (found["rule"], found["step"], found["constraint"]["metric"]) == ("ac", 1, "f1")
    assert found["rule_reason"] == "there is no accuracy"
    assert run("select", log) == 0
    first = heard().out.splitlines()[0]
    why = "within 1% of the best f1, of step 0, it has the lowest loss"
    assert first == f"Use step 1 (2 in names of checkpoints; {why})."


def test_a_log_without_accuracy_takes_another_constraint(log: Path) -> None:
    found = selection(log, "--constraint", "f1", "--delta", "0.5%")
    assert (found["step"], found["params"]["objectives"]) == (1, ["nll"])
    assert "accuracy" in refusal("select", log, "--objectives", "f1")


def test_runs_with_and_without_accuracy_in_one_folder(
    table: Path, log: Path, tmp_path: Path
) -> None:
    for name, text in (("a", LOG), ("b", LOG.replace("val_f1", "val_accuracy"))):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "log.csv").write_text(text)
    out = tmp_path / "choices.csv"
    assert run("select", tmp_path / "runs", "-o", out) == 0
    said = heard().out
    assert {"by", "f1", "accuracy"} <= set(said.split())
    assert "nan" not in said
    assert ",ac,1,," in out.read_text()


def test_the_page_is_about_the_same_choice(table: Path, log: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    asked = ("--constraint", "f1", "--delta", "0.5%", "--objectives", "nll")
    assert run("select", table, "--page", page, *asked, "--param", "ties=latest") == 0
    assert "Use step 400" in page.read_text()
    assert run("select", log, "--page", page) == 0
    assert "Use step 1" in page.read_text()
