"""MLflow's sqlite store."""

from __future__ import annotations

import math
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from sys import float_info

import numpy as np
import pytest

from checkwise.readers import log_runs
from checkwise.readers import mlflow_db as mlflow_store
from checkwise.readers.mlflow_folder import local_folder
from checkwise.readers.request import Request
from tests.readers.logs.tracker_stores import build, cells, listing, logs_in, own_reading
from tests.refusals import refused

RUNS = own_reading("mlflow")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return build("mlflow", tmp_path / "mlflow.db")


def _run_id(experiment: str, name: str, n_metrics: int) -> str:
    (run_id,) = (
        run_id
        for run_id, run in RUNS.items()
        if (run["experiment"], run["name"], len(run["history"])) == (experiment, name, n_metrics)
    )
    return str(run_id)


FULL = _run_id("digits", "cnn", 3)
RESUMED = _run_id("digits", "cnn", 2)
OTHER = _run_id("other", "cnn", 2)


def test_every_run_with_metrics_is_a_log_under_its_name(store: Path) -> None:
    assert mlflow_store.recognises(store)
    logs = logs_in(mlflow_store, store)
    assert [log.run for log in logs] == [
        f"digits/cnn-{FULL[:8]}",
        f"digits/cnn-{RESUMED[:8]}",
        "digits/without steps",
        "other/cnn",
    ]
    assert all(log.trainer.name == "MLflow" and log.axes == {"step": "step"} for log in logs)
    assert [log.notes for log in logs] == [("1 deleted run left out",), (), (), ()]


def test_histories_are_those_that_mlflow_reads(store: Path) -> None:
    logs = logs_in(mlflow_store, store)
    for log, run_id in zip(logs[:2] + logs[3:], [FULL, RESUMED, OTHER], strict=True):
        history = RUNS[run_id]["history"]
        assert sorted(log.header) == sorted(history)
        for name, rows in history.items():
            expected = [
                (step, math.inf if value == float_info.max else value) for _, step, value in rows
            ]
            np.testing.assert_array_equal(cells(log, name), expected)
            assert np.isnan(log.points(name).epochs).all()


def test_a_resumed_run_keeps_the_order_in_which_it_was_logged(store: Path) -> None:
    log = logs_in(mlflow_store, store)[1]
    assert log.points("val_acc").steps.tolist() == [100, 200, 300, 200, 300, 400]


def test_values_without_steps_are_refused_when_they_are_read(store: Path, tmp_path: Path) -> None:
    log = logs_in(mlflow_store, store)[2]
    with refused("missing: 5 … digits/without"):
        log.points("val_acc")
    changes = "UPDATE OR IGNORE metrics SET value = 0.5"
    log = logs_in(mlflow_store, build("mlflow", tmp_path / "equal.db", changes=changes))[2]
    assert cells(log, "val_acc") == [(0, 0.5)] * 5  # the last value, logged again


def test_values_that_are_not_finite_come_back_so(store: Path) -> None:
    values = dict(cells(logs_in(mlflow_store, store)[0], "train_loss"))
    assert math.isnan(values[200])
    assert values[600] == math.inf


def _model_folders(folder: Path, run_id: str) -> dict[str, Path]:
    """The folders of a run's models, created, by model."""
    with closing(sqlite3.connect(folder / "mlflow.db")) as connection:
        rows = connection.execute(
            "SELECT name, experiment_id, model_id FROM logged_models WHERE source_run_id = ?",
            (run_id,),
        ).fetchall()
    folders = {
        name: folder / "mlruns" / str(experiment) / "models" / model / "artifacts"
        for name, experiment, model in rows
    }
    for path in folders.values():
        path.mkdir(parents=True)
    return folders


@pytest.mark.parametrize("here", [True, False], ids=["in place", "moved"])
def test_models_are_found_by_the_step_they_were_logged_with(tmp_path: Path, here: bool) -> None:
    store = build("mlflow", tmp_path / "mlflow.db", here=here)
    folders = _model_folders(tmp_path, FULL)
    log, *others = logs_in(mlflow_store, store)
    assert log.files == {
        200: str(folders["epoch-1"]),
        400: str(folders["epoch-3"]),
    }
    assert not any(other.files for other in others)


def test_a_model_whose_folder_is_gone_is_not_named(tmp_path: Path) -> None:
    store = build("mlflow", tmp_path / "mlflow.db", here=True)
    shutil.rmtree(_model_folders(tmp_path, FULL)["epoch-1"])
    assert sorted(logs_in(mlflow_store, store)[0].files) == [400]


def test_a_model_logged_without_a_step_is_not_the_model_of_step_0(tmp_path: Path) -> None:
    changes = (
        "UPDATE inputs SET step = 0; "
        f"UPDATE metrics SET step = step - 100 WHERE run_uuid = '{FULL}'"
    )
    store = build("mlflow", tmp_path / "mlflow.db", here=True, changes=changes)
    _model_folders(tmp_path, FULL)
    assert logs_in(mlflow_store, store)[0].files == {}


def _paths(store: Path) -> dict[int, str | None]:
    """The checkpoint of each step of the last run of a store."""
    runs = log_runs.read(logs_in(mlflow_store, store)[-1:], Request(include_unsaved=True), store)
    run = runs[0].trajectory
    return dict(zip(run.steps.tolist(), run.paths or (), strict=False))


def test_checkpoints_among_local_artifacts_are_found_by_their_names(tmp_path: Path) -> None:
    store = build("mlflow", tmp_path / "mlflow.db", here=True)
    (tmp_path / "metrics.csv").write_text("epoch,val_acc,val_loss\n0,0.5,1.0\n1,0.6,0.9\n")
    artifacts = tmp_path / "mlruns" / "2" / OTHER / "artifacts"
    for name in ("epoch_1", "checkpoint-3", "latest", "epoch_x"):
        (artifacts / name).mkdir(parents=True)
        (artifacts / name / "weights.pt").write_bytes(b"w")
    found = {step: path for step, path in _paths(store).items() if path}
    assert found == {1: str(artifacts / "epoch_1"), 3: str(artifacts / "checkpoint-3")}


def test_artifacts_are_looked_for_on_this_machine_only(tmp_path: Path) -> None:
    artifacts = tmp_path / "some artifacts"
    artifacts.mkdir()
    quoted = str(artifacts).replace(" ", "%20")
    found = {
        uri: local_folder(uri)
        for uri in (
            str(artifacts), f"file://{quoted}", f"file://localhost{quoted}",
            f"file://elsewhere{quoted}", f"s3://bucket{quoted}", f"http://[{quoted}",
            "some artifacts", "file:some artifacts",
        )
    }  # fmt: skip
    assert [*found.values()] == [artifacts] * 3 + [None] * 5


def test_ids_that_are_paths_lead_nowhere(tmp_path: Path) -> None:
    secret = tmp_path / "secret" / "artifacts" / "checkpoint-1"
    secret.mkdir(parents=True)
    (secret / "weights.pt").write_bytes(b"w")
    (tmp_path / "work" / "mlruns" / "2").mkdir(parents=True)
    changes = (
        f"UPDATE runs SET run_uuid = '../../../secret' WHERE run_uuid = '{OTHER}'; "
        f"UPDATE metrics SET run_uuid = '../../../secret' WHERE run_uuid = '{OTHER}'"
    )
    store = build("mlflow", tmp_path / "work" / "mlflow.db", changes=changes)
    assert not any(_paths(store).values())


def test_names_with_control_characters_are_escaped(tmp_path: Path) -> None:
    changes = f"UPDATE runs SET name = 'red' || char(27) || '[31m' WHERE run_uuid = '{OTHER}'"
    store = build("mlflow", tmp_path / "mlflow.db", changes=changes)
    assert logs_in(mlflow_store, store)[-1].run == "other/red\\x1b[31m"


def test_one_run_needs_no_name(tmp_path: Path) -> None:
    changes = f"UPDATE runs SET lifecycle_stage = 'deleted' WHERE run_uuid <> '{OTHER}'"
    (log,) = logs_in(mlflow_store, build("mlflow", tmp_path / "mlflow.db", changes=changes))
    assert log.run == ""
    assert log.notes == ("4 deleted runs left out",)


def test_runs_of_a_deleted_experiment_are_deleted(tmp_path: Path) -> None:
    changes = "UPDATE experiments SET lifecycle_stage = 'deleted'"
    with refused("empty"):
        logs_in(mlflow_store, build("mlflow", tmp_path / "mlflow.db", changes=changes))


def test_text_in_one_metric_stays_a_cell_and_harms_no_other(tmp_path: Path) -> None:
    changes = "UPDATE metrics SET value = 'oops', step = 'one' WHERE key = 'train_loss'"
    log = logs_in(mlflow_store, build("mlflow", tmp_path / "mlflow.db", changes=changes))[0]
    expected = [(step, value) for _, step, value in RUNS[FULL]["history"]["val_acc"]]
    assert cells(log, "val_acc") == expected
    points = log.points("train_loss")
    assert np.isnan(points.steps).all()
    assert points.cells[0] == "oops"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("ALTER TABLE metrics RENAME COLUMN step TO old", "missing: metrics.step"),
        ("ALTER TABLE metrics RENAME COLUMN is_nan TO old", "missing: metrics.is_nan"),
        ("ALTER TABLE runs RENAME COLUMN name TO old", "missing: runs.name"),
        ("DELETE FROM metrics", "empty"),
    ],
)
def test_a_store_that_lacks_something_says_what(tmp_path: Path, change: str, message: str) -> None:
    store = build("mlflow", tmp_path / "mlflow.db", changes=change)
    assert mlflow_store.recognises(store)
    with refused(message):
        logs_in(mlflow_store, store)


@pytest.mark.parametrize("change", ["DROP TABLE logged_models", "DROP TABLE inputs"])
def test_a_store_of_mlflow_2_has_no_models(tmp_path: Path, change: str) -> None:
    store = build("mlflow", tmp_path / "mlflow.db", here=True)
    _model_folders(tmp_path, FULL)
    with closing(sqlite3.connect(store)) as connection:
        connection.executescript(change)
    assert logs_in(mlflow_store, store)[0].files == {}


def test_other_files_are_not_recognised(tmp_path: Path) -> None:
    text = tmp_path / "mlflow.db"
    text.write_text("val_acc,val_loss\n")
    assert not mlflow_store.recognises(text)
    assert not mlflow_store.recognises(tmp_path)
    assert not mlflow_store.recognises(tmp_path / "missing")
    assert not mlflow_store.recognises(build("trackio", tmp_path / "trackio.db"))


def test_nothing_is_written_beside_the_database(store: Path) -> None:
    before = listing(store.parent)
    for log in logs_in(mlflow_store, store)[:2]:
        for name in log.header:
            log.points(name)
    assert listing(store.parent) == before
