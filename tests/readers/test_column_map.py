"""Which column is read as accuracy, what is refused until that is said, and what is left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from checkwise.errors import InputError
from checkwise.readers import load
from checkwise.records import Trajectory
from tests.readers.samples import write_csv, write_lines
from tests.refusals import refused

KERAS = [
    {"step": 0, "accuracy": 0.5, "loss": 1.0, "val_accuracy": 0.45, "val_loss": 1.1},
    {"step": 1, "accuracy": 0.9, "loss": 0.2, "val_accuracy": 0.40, "val_loss": 1.5},
]


def _write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".csv":
        return write_csv(path, rows)
    if path.suffix == ".parquet":
        pd.DataFrame(rows).to_parquet(path)
        return path
    return write_lines(path, rows)


FORMATS = pytest.mark.parametrize("name", ["run.csv", "run.parquet", "run.jsonl"])


@FORMATS
def test_training_accuracy_is_not_taken_for_validation(tmp_path: Path, name: str) -> None:
    path = _write(tmp_path / name, KERAS)
    run = load(path)
    assert run.values["accuracy"][:, 0].tolist() == [0.45, 0.40]
    assert run.values["nll"][:, 0].tolist() == [1.1, 1.5]
    assert dict(run.columns) == {"accuracy": "val_accuracy", "nll": "val_loss"}
    said = load(path, columns={"accuracy": "accuracy"})
    assert said.values["accuracy"][:, 0].tolist() == [0.5, 0.9]
    assert "accuracy ← accuracy (by --column)" in said.notes[0]


def test_a_frame_is_asked_about_too() -> None:
    with refused("ambiguous: 'val_accuracy'"):
        Trajectory.from_frame(pd.DataFrame(KERAS))
    run = Trajectory.from_frame(pd.DataFrame(KERAS), columns={"accuracy": "val_accuracy"})
    assert run.values["accuracy"][:, 0].tolist() == [0.45, 0.40]
    assert run.notes[-1] == "not read: accuracy, loss, val_loss"


@pytest.mark.parametrize(
    "rival",
    [
        "val_accuracy", "val_acc", "valid_accuracy", "eval_accuracy", "validation/accuracy",
        "eval/acc", "Val Accuracy", "valAcc", "accuracy_val", "val.acc@1", "dev_accuracy",
        "val_top1", "valacc",
    ],
)  # fmt: skip
def test_validation_accuracy_is_read_beside_one_that_does_not_say_its_set(
    tmp_path: Path, rival: str
) -> None:
    rows = [{"step": 0, "accuracy": 0.9, rival: 0.5}]
    run = load(_write(tmp_path / "run.jsonl", rows))
    assert run.values["accuracy"].tolist() == [[0.5]]


@pytest.mark.parametrize("rival", ["eval_photo_accuracy", "best_val_acc"])
def test_a_column_that_may_be_validation_accuracy_is_asked_about(
    tmp_path: Path, rival: str
) -> None:
    rows = [{"step": 0, "accuracy": 0.9, rival: 0.5}]
    with pytest.raises(InputError, match=f"--column accuracy={rival}"):
        load(_write(tmp_path / "run.jsonl", rows))
    run = load(tmp_path / "run.jsonl", columns={"accuracy": rival})
    assert run.values["accuracy"].tolist() == [[0.5]]


@pytest.mark.parametrize(
    ("metric", "rival"),
    [("nll", "val_nll"), ("nll", "val_loss"), ("nll", "validation/nll"), ("ece", "val_ece"),
     ("cwece", "eval_cwece"), ("brier", "valid_brier"), ("hard_ece", "val_hard_ece")],
)  # fmt: skip
def test_other_metrics_have_rivals_too(tmp_path: Path, metric: str, rival: str) -> None:
    rows = [{"step": 0, "accuracy": 0.9, metric: 0.1, rival: 0.5}]
    path = _write(tmp_path / "run.jsonl", rows)
    with pytest.raises(InputError, match=f"one column for {metric}"):
        load(path)
    assert load(path, columns={metric: rival}).values[metric].tolist() == [[0.5]]
    assert load(path, columns={metric: metric}).values[metric].tolist() == [[0.1]]


@pytest.mark.parametrize(
    "other", ["val_loss", "train_accuracy", "test_accuracy", "lr", "valley_accuracy", "evaluator"]
)
def test_other_columns_are_no_rivals_of_accuracy(tmp_path: Path, other: str) -> None:
    run = load(_write(tmp_path / "run.jsonl", [{"step": 0, "accuracy": 0.9, other: 0.5}]))
    assert run.values["accuracy"].tolist() == [[0.9]]
    assert f"not read: {other}" in run.notes
    hint = any("--column nll=val_loss" in note for note in run.notes)
    assert hint == (other == "val_loss")


def test_columns_of_a_test_set_are_read_only_when_the_user_names_them(tmp_path: Path) -> None:
    rows = [{"step": 0, "test_accuracy": 0.9, "test_nll": 0.5}]
    path = _write(tmp_path / "run.csv", rows)
    with refused("held-out: accuracy=test_accuracy"):
        load(path)
    run = load(path, columns={"accuracy": "test_accuracy"})
    assert run.metrics == ("accuracy",)
    assert "accuracy ← test_accuracy (by --column)" in run.notes[0]


def test_a_missing_column_is_answered_with_the_line_to_type(tmp_path: Path) -> None:
    path = _write(tmp_path / "run.csv", [{"when": 3, "hits": 0.9}])
    with refused("missing: --column … step=COLUMN"):
        load(path)
    with refused("missing: --column accuracy=COLUMN"):
        load(path, columns={"step": "when"})
    assert load(path, columns={"step": "when", "accuracy": "hits"}).steps.tolist() == [3]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"step": "epoch"}, "missing: 'epoch' … step"),
        ({"accuracy": "val_acc"}, "missing: 'val_acc' … accuracy … step"),
    ],
)
def test_a_map_that_cannot_be_meant_is_refused(
    tmp_path: Path, columns: dict[str, str], said: str
) -> None:
    with refused(said):
        load(_write(tmp_path / "run.csv", KERAS), columns=columns)


def test_run_columns_can_be_mapped(tmp_path: Path) -> None:
    rows = [{"seed": seed, "step": 0, "accuracy": 0.9} for seed in (3,)]
    run = load(_write(tmp_path / "run.jsonl", rows), columns={"trial_seed": "seed"})
    assert run.key is not None
    assert run.key.trial_seed == 3


@FORMATS
def test_columns_that_are_not_read_are_named_once_and_shortened(tmp_path: Path, name: str) -> None:
    rows = [{"run": run, "step": 0, "accuracy": 0.9} | {f"c{i:02}": i for i in range(11)}
            for run in ("a",)]  # fmt: skip
    run = load(_write(tmp_path / name, rows))
    assert run.notes == ("not read: c00, c01, c02, c03, c04, c05, c06, c07 and 3 more",)
    plain = load(_write(tmp_path / name, [{"step": 0, "accuracy": 0.9, "n": 10}]))
    assert plain.notes == ()


def test_columns_that_only_held_out_rows_have_change_nothing(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"step": 0, "domain": "art", "accuracy": 0.9, "role": "source"},
        {"step": 0, "domain": "sketch", "accuracy": 0.1, "role": "target"},
    ]
    path = write_lines(tmp_path / "run.jsonl", rows)
    clean = json.dumps([load(path).digest, load(path).notes])
    rows[1] |= {"nll": "poison", "n": -1, "val_accuracy": 0.5, "extra": None, "diverged": "x"}
    del rows[1]["step"], rows[1]["accuracy"]
    path = write_lines(path, rows)
    assert json.dumps([load(path).digest, load(path).notes]) == clean
