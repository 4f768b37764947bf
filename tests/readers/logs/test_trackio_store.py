"""Trackio's sqlite databases."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from checkwise.readers import mlflow_db as mlflow_store
from checkwise.readers import trackio as trackio_store
from checkwise.readers.log import TRACKIO
from tests.readers.logs.tracker_stores import build, cells, listing, logs_in, own_reading
from tests.refusals import refused

RUNS = own_reading("trackio")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return build("trackio", tmp_path / "digits.db")


def test_every_run_of_the_project_is_a_log_under_its_name(store: Path) -> None:
    assert trackio_store.recognises(store)
    logs = logs_in(trackio_store, store)
    ids = {run["name"]: [r["id"] for r in RUNS if r["name"] == run["name"]] for run in RUNS}
    assert {log.run for log in logs} == {f"cnn-{run[:8]}" for run in ids["cnn"]} | {"vit"}
    assert all(log.trainer is TRACKIO for log in logs)
    assert all(log.header == ("train/loss", "val_loss", "val/acc") for log in logs)


def test_metrics_are_those_that_trackio_reads(store: Path) -> None:
    logs = {log.run[-8:]: log for log in logs_in(trackio_store, store)}
    for run in RUNS:
        log = logs[run["id"][:8] if run["name"] == "cnn" else "vit"]
        for name in ("train/loss", "val_loss"):
            expected = [(r["train/global_step"], r[name]) for r in run["logs"] if name in r]
            assert len(expected) == 5
            np.testing.assert_array_equal(cells(log, name), expected)
        expected = [(r["train/global_step"], r["val"]["acc"]) for r in run["logs"] if "val" in r]
        assert cells(log, "val/acc") == expected
        assert log.points("val/acc").epochs.tolist() == [0, 1, 2, 3, 4]
        assert math.isnan(dict(cells(log, "train/loss"))[300])


def test_without_a_trainers_step_trackios_own_counts(tmp_path: Path) -> None:
    changes = "UPDATE metrics SET metrics = replace(CAST(metrics AS TEXT), 'train/global_', 'my_')"
    log = logs_in(trackio_store, build("trackio", tmp_path / "digits.db", changes=changes))[0]
    assert log.axes == {"step": "step", "epoch": "epoch"}
    assert log.points("val_loss").steps.tolist() == [1, 3, 5, 7, 9]


def test_the_step_of_a_trainer_is_named_as_the_axis(store: Path) -> None:
    log = logs_in(trackio_store, store)[0]
    assert log.axes == {"step": "train/global_step", "epoch": "epoch"}


def test_older_databases_know_runs_by_name_only(tmp_path: Path) -> None:
    changes = (
        "CREATE TABLE old (id INTEGER PRIMARY KEY, timestamp, run_name, step, metrics);"
        "INSERT INTO old SELECT id, timestamp, run_name, step, CAST(metrics AS TEXT) FROM metrics;"
        "DROP TABLE metrics; ALTER TABLE old RENAME TO metrics"
    )
    logs = logs_in(trackio_store, build("trackio", tmp_path / "digits.db", changes=changes))
    assert [(log.run, len(cells(log, "val_loss"))) for log in logs] == [("cnn", 10), ("vit", 5)]


def test_a_record_that_is_no_json_object_is_refused(tmp_path: Path) -> None:
    cells = ("'{'", "'[1]'", "'1'", "NULL", "7", "x'ff00'", "'" + "[" * 100_000 + "'")
    for number, cell in enumerate(cells):
        changes = (
            "CREATE TABLE m (id, run_id, run_name, step, metrics); "
            "INSERT INTO m SELECT id, run_id, run_name, step, metrics FROM metrics; "
            f"UPDATE m SET metrics = {cell} WHERE id = 7; "
            "DROP TABLE metrics; ALTER TABLE m RENAME TO metrics"
        )
        with refused("format: JSON … 7"):
            logs_in(trackio_store, build("trackio", tmp_path / f"{number}.db", changes=changes))


def test_odd_values_stay_as_they_are(tmp_path: Path) -> None:
    values = {
        '"oops"': "oops", "[1, 2]": [1, 2], "1e999": math.inf, '"Infinity"': "Infinity",
        "true": True,
    }  # fmt: skip
    for number, (value, cell) in enumerate(values.items()):
        changes = f"""UPDATE metrics SET metrics = '{{"val_loss": {value}}}' WHERE id = 2"""
        store = build("trackio", tmp_path / f"{number}.db", changes=changes)
        points = logs_in(trackio_store, store)[0].points("val_loss")
        assert points.cells[0] == cell
        assert np.isnan(points.steps[0])


def test_text_and_media_are_no_columns(tmp_path: Path) -> None:
    record = '{"note": "text", "image": {"_type": "trackio.image", "path": "../x"}, "done": true}'
    changes = f"UPDATE metrics SET metrics = '{record}'"
    log = logs_in(trackio_store, build("trackio", tmp_path / "digits.db", changes=changes))[0]
    assert log.header == ()


def test_deep_records_are_flattened(tmp_path: Path) -> None:
    deep = '{"a":' * 500 + "1" + "}" * 500
    changes = f"UPDATE metrics SET metrics = '{deep}'"
    log = logs_in(trackio_store, build("trackio", tmp_path / "digits.db", changes=changes))[0]
    assert log.header == ("/".join("a" * 500),)


def test_a_project_without_records_says_so(tmp_path: Path) -> None:
    store = build("trackio", tmp_path / "digits.db", changes="DELETE FROM metrics")
    with refused("empty"):
        logs_in(trackio_store, store)


def test_a_database_without_steps_says_what_it_lacks(tmp_path: Path) -> None:
    changes = "ALTER TABLE metrics RENAME COLUMN step TO old"
    store = build("trackio", tmp_path / "digits.db", changes=changes)
    with refused("missing: metrics.step"):
        logs_in(trackio_store, store)


def test_other_databases_are_not_recognised(tmp_path: Path) -> None:
    assert not trackio_store.recognises(build("mlflow", tmp_path / "mlflow.db"))
    assert not mlflow_store.recognises(build("trackio", tmp_path / "digits.db"))


def test_nothing_is_written_beside_a_database_in_use(store: Path) -> None:
    with closing(sqlite3.connect(store, isolation_level=None)) as live:
        live.execute("PRAGMA journal_mode = WAL")  # Trackio's own setting
        live.execute("UPDATE metrics SET step = step + 1")
        before = listing(store.parent)
        assert len(before) == 3
        assert len(logs_in(trackio_store, store)) == 3
        assert listing(store.parent) == before
