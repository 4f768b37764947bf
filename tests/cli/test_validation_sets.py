"""Every answer names its validation sets; options say what is held out, and what is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import checkwise as cw
from tests.cli.calls import otherwise, refusal, said

DOMAINS = """step,domain,accuracy,nll,cwece,path
100,art,0.90,0.70,0.020,a.pt
100,photo,0.90,0.70,0.020,a.pt
100,test,0.10,9.99,0.500,a.pt
200,art,0.80,0.40,0.010,b.pt
200,photo,0.80,0.40,0.010,b.pt
200,test,0.99,0.01,0.000,b.pt
"""


def chosen(*words: object) -> dict[str, Any]:
    (entry,) = json.loads(said("select", *words, "--json"))["runs"]
    found: dict[str, Any] = entry["selection"]
    return found


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "run.csv"
    path.write_text(DOMAINS)
    return path


def test_the_answer_names_its_validation_sets(table: Path) -> None:
    text = said("select", table)
    assert text.startswith("Use step 100")
    assert "Validated on art and photo: accuracy is their mean." in text
    assert "note: held out because of the name: test (if validation, add --source test" in text
    found = chosen(table)
    assert found["validation"] == ["art", "photo"]
    assert any("held out because of the name: test" in note for note in found["notes"])
    assert "Mean accuracy of art and photo" in cw.select(cw.load(table)).explain()


def test_a_set_named_like_a_target_takes_part_when_the_user_says_so(table: Path) -> None:
    text = said("select", table, "--source", "test")
    assert text.startswith("Use step 200")
    assert "Validated on art, photo and test" in text
    assert "held out because" not in text


def test_the_only_set_is_asked_about_with_the_line_to_type(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("step,domain,accuracy\n0,test,0.5\n")
    assert "add --source test" in refusal("select", path)
    assert "Validated on test." in said("select", path, "--source", "test")


def test_a_table_without_domains_is_not_said_to_have_any(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("step,accuracy\n0,0.5\n")
    assert "Validated" not in said("select", path)
    assert chosen(path)["validation"] == ["validation"]


def test_many_sets_are_shortened_in_words_and_whole_in_json(tmp_path: Path) -> None:
    names = [f"d{i:02}" for i in range(20)]
    path = tmp_path / "run.csv"
    path.write_text("step,domain,accuracy\n" + "".join(f"0,{name},0.5\n" for name in names))
    assert "d10, d11 and 8 more" in said("select", path)
    assert chosen(path)["validation"] == names


def _runs(path: Path, runs: dict[str, list[str]]) -> Path:
    rows = [f"{run},{step},{name},0.5\n" for run in runs for step in (0, 1) for name in runs[run]]
    path.write_text("run,step,domain,accuracy\n" + "".join(rows))
    return path


def test_many_runs_name_their_sets_once_where_all_are_alike(tmp_path: Path) -> None:
    path = _runs(tmp_path / "runs.csv", {"a": ["art", "photo"], "b": ["art", "photo"]})
    text = said("select", path)
    assert text.count("Validated") == 1
    assert "\nValidated on art and photo: accuracy is their mean.\n" in text


def test_many_runs_with_different_sets_name_them_all(tmp_path: Path) -> None:
    sets = {"a": ["art", "photo"], "b": ["art", "sketch"], "c": ["art", "photo"]}
    text = said("select", _runs(tmp_path / "runs.csv", sets))
    assert "\nValidated on art and photo: accuracy is their mean. (2 of 3 runs)\n" in text
    assert "\nValidated on art and sketch: accuracy is their mean. (1 of 3 runs)\n" in text
    text = said("select", _runs(tmp_path / "r.csv", {f"r{i}": [f"d{i}"] for i in range(30)}))
    assert 0 < text.count("Validated") <= 12
    assert "more notes, with -v" in text


KERAS = """epoch,accuracy,loss,val_accuracy,val_loss,path
0,0.50,1.0,0.45,1.1,a.pt
1,0.99,0.1,0.40,1.5,b.pt
"""
MAP = ("--column", "step=epoch", "--column", "accuracy=val_accuracy")


def test_a_table_with_training_and_validation_columns_needs_the_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.csv").write_text(KERAS)
    for weights in ("a.pt", "b.pt"):
        (tmp_path / weights).write_bytes(weights.encode())
    assert "--column step=epoch" in refusal("select", "run.csv")
    text = refusal("select", "run.csv", "--column", "step=epoch")
    assert "--column accuracy=val_accuracy" in text
    found = chosen("run.csv", *MAP)
    assert found["step"] == 0
    assert "not read: accuracy, loss, val_loss" in found["notes"]
    said("select", "run.csv", "--copy-to", "best.pt", *MAP)
    assert (tmp_path / "best.pt").read_bytes() == b"a.pt"
    said("select", "run.csv", "--page", "page.html", *MAP)
    assert "Step 0" in (tmp_path / "page.html").read_text()


def test_options_that_match_nothing_are_refused(table: Path) -> None:
    refused = {
        "--column accuracy": "--column … NAME=COLUMN … 'accuracy'",
        "--column =x": "--column … NAME=COLUMN",
        "--column n=a --column n=b": "--column",
        "--column acc=accuracy": "'acc'",
        "--source sketch": "'sketch'",
        "--held-out Art": "'art'",
        "--held-out art,photo": "--held-out",
        "--held-out art --source art": "--held-out … --source",
    }
    lines = {f"select TABLE {words}": named for words, named in refused.items()}
    assert not otherwise(lines, TABLE=table)
