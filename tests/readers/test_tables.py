"""Tidy tables in three formats, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from checkwise.errors import InputError
from checkwise.readers import load, load_runs
from checkwise.records import RunKey, Trajectory
from tests.readers.samples import STEPS, table_rows, write_csv, write_lines
from tests.refusals import refused


def _write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".csv":
        return write_csv(path, rows)
    if path.suffix == ".parquet":
        pd.DataFrame(rows).to_parquet(path)
        return path
    return write_lines(path, rows)


FORMATS = pytest.mark.parametrize("name", ["run.csv", "run.parquet", "run.jsonl"])


@FORMATS
def test_every_format_reads_as_the_frame_it_was_written_from(tmp_path: Path, name: str) -> None:
    run = load(_write(tmp_path / name, table_rows()))
    expected = Trajectory.from_frame(pd.DataFrame(table_rows()))
    assert run.digest == expected.digest
    assert run.domains == ("art", "photo")
    assert set(run.metrics) == {"accuracy", "nll", "ece", "cwece"}
    assert run.key is None


@FORMATS
def test_held_out_by_name_does_the_same_as_a_role(tmp_path: Path, name: str) -> None:
    by_role = load(_write(tmp_path / name, table_rows()))
    rows = [{k: v for k, v in row.items() if k != "role"} for row in table_rows()]
    path = _write(tmp_path / f"plain-{name}", rows)
    assert load(path, held_out="sketch").digest == by_role.digest
    with refused("unknown: 'quickdraw'"):
        load(path, held_out="quickdraw")


def _keyed() -> list[dict[str, Any]]:
    return [
        {"dataset": "PACS", "algorithm": "ERM", "held_out": held_out, "hparams_seed": 0,
         "trial_seed": seed}
        | {k: v for k, v in row.items() if k != "role"}
        for held_out in ("sketch", "art+photo")
        for seed in (0, 1)
        for row in table_rows()
    ]  # fmt: skip


@FORMATS
def test_run_columns_split_a_table_and_name_its_targets(tmp_path: Path, name: str) -> None:
    path = _write(tmp_path / name, _keyed())
    runs = load_runs(path)
    assert list(runs) == [
        RunKey("PACS", "ERM", held_out, 0, seed)
        for held_out in (("sketch",), ("art", "photo"))
        for seed in (0, 1)
    ]
    assert [run.domains for run in runs.values()] == [("art", "photo")] * 2 + [("sketch",)] * 2
    assert all(run.key == key for key, run in runs.items())
    with refused("ambiguous: 4 … PACS-ERM-sketch-h0-t0"):
        load(path)


def test_a_run_column_is_enough(tmp_path: Path) -> None:
    rows = [{"run": run, **row} for run in ("a", "b") for row in table_rows()]
    runs = load_runs(write_csv(tmp_path / "runs.csv", rows))
    assert [key.dataset for key in runs] == ["a", "b"]


def test_two_runs_under_one_key_are_refused_by_both_names(tmp_path: Path) -> None:
    rows = [{"run": run, "algorithm": "ERM", "dataset": "PACS", **row}
            for run in ("a", "b") for row in table_rows()]  # fmt: skip
    path = write_csv(tmp_path / "runs.csv", rows)
    with refused("ambiguous: run a/PACS/ERM … run b/PACS/ERM … PACS-ERM"):
        load_runs(path)


def test_decimals_are_read_as_written(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("step,accuracy\n0,0.30000000000000004\n100,0.8999999999999999\n200,1e-1\n")
    assert load(path).values["accuracy"][:, 0].tolist() == [
        0.30000000000000004,
        0.8999999999999999,
        0.1,
    ]


def test_a_single_validation_set_needs_no_domain_column(tmp_path: Path) -> None:
    path = tmp_path / "my run.csv"
    path.write_text("\ufeffstep, accuracy ,n\r\n0,0.5,10\r\n\r\n100,0.7,10\r\n")
    run = load(path)
    assert run.domains == ("validation",)
    assert run.correct is not None
    assert run.correct.tolist() == [[5], [7]]
    assert [key.dataset for key in load_runs(path)] == ["my run"]


def test_further_metrics_are_read_when_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("step,accuracy,mce\n0,0.5,0.2\n")
    assert load(path).metrics == ("accuracy",)
    assert load(path, metrics="mce").values["mce"].tolist() == [[0.2]]
    with refused("missing: 'auc'"):
        load(path, metrics=["auc"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "missing: nothing … --column"),
        (b"\n\n", "missing: nothing"),
        (b"step,accuracy\n", "empty"),
        (b"0,0.5\n100,0.6\n", "missing: 0, 0 … 5"),
        (b"step;accuracy\n0;0,5\n", "missing: step;accuracy"),
        (b"step,accuracy\n0,0.5\n100\n", "format: 3 … 1"),
        (b"step,accuracy\n0,0.5,9\n", "format: 2 … 3"),
        (b'step,accuracy\n0,"0.5\n', "format"),
        (b"step,accuracy\n0,\xff\n", "format: UTF-8"),
        ("step,accuracy\n0,0.5\n".encode("utf-16"), "format: UTF-8"),
        (b"step,accuracy,accuracy\n0,0.5,0.6\n", "ambiguous: 'accuracy'"),
        (b"step,accuracy\n0,high\n", "value: accuracy … 'high'"),
        (b"step,accuracy\n0,\n", "value: accuracy … ''"),
        (b"step,accuracy\n0,nan\n", "value"),
        (b"step,accuracy\n0,56.1\n", "value: 100"),
        (b"step,accuracy\nzero,0.5\n", "value: step … 'zero'"),
        (b"step,accuracy\n0,0.5\n0,0.6\n", "ambiguous"),
        (b"step,accuracy,domain\n0,0.5,a\n0,0.5,b\n1,0.5,a\n", "differs: 1 … 'b'"),
        (b"step,accuracy,role\n0,0.5,valid\n", "format: 'source' … 'target'"),
        (b"step,accuracy,role\n0,0.5,target\n", "empty"),
        (b"step,accuracy,domain,held_out\n0,0.5,a,a\n", "empty: held-out"),
        (b"step,accuracy,trial_seed\n0,0.5,x\n", "format: trial_seed"),
    ],
)
def test_a_table_that_cannot_be_meant_is_one_clear_line(
    tmp_path: Path, text: bytes, said: str
) -> None:
    path = tmp_path / "run.csv"
    path.write_bytes(text)
    with refused(said) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_torn_json_table_says_which_step_is_incomplete(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "run.jsonl", [r for r in table_rows() if r["domain"] == "art"])
    path.write_bytes(path.read_bytes()[:-5])
    run = load(path)
    assert run.steps.tolist() == list(STEPS[:-1])
    assert any("cut off" in note for note in run.notes)


def test_a_list_of_records_is_read_like_lines_of_them(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(table_rows(), indent=1))
    lines = write_lines(tmp_path / "run.jsonl", table_rows())
    assert load(path).digest == load(lines).digest


def test_a_huge_number_is_refused_like_any_other(tmp_path: Path) -> None:
    for field in ("step", "accuracy", "n"):
        row = {"step": 0, "accuracy": 0.5, "n": 3} | {field: 10**400}
        with pytest.raises(InputError):
            load(write_lines(tmp_path / "run.jsonl", [row]))


def test_a_damaged_parquet_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    pd.DataFrame(table_rows()).to_parquet(path)
    path.write_bytes(path.read_bytes()[:-20])
    with refused("format"):
        load(path)
