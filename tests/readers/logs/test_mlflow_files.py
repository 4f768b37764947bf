"""MLflow's file store."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from checkwise.errors import CheckwiseWarning, InputError
from checkwise.readers import load, load_runs
from checkwise.readers import mlflow_db as mlflow_store
from checkwise.readers import mlflow_folder as mlflow_files
from tests.readers.logs.tracker_stores import MATERIAL, build, cells, logs_in, own_reading
from tests.refusals import refused
from tests.requirements import SHARED, package, requires

RUNS = own_reading("mlruns")
REAL = SHARED / "real-logs" / "mlflow"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MATERIAL / "mlruns", tmp_path / "any name"))


def _folder(store: Path, name: str, n_metrics: int) -> Path:
    (run_id,) = (
        run_id
        for run_id, run in RUNS.items()
        if (f"{run['experiment']}/{run['name']}", len(run["history"])) == (name, n_metrics)
    )
    (folder,) = store.glob(f"*/{run_id}")
    return folder


def test_the_store_an_experiment_and_a_run_are_recognised(store: Path) -> None:
    run = _folder(store, "other/cnn", 2)
    assert all(mlflow_files.recognises(path) for path in (store, run.parent, run))
    for path in (store.parent, run / "metrics", run / "meta.yaml", store / "missing"):
        assert not mlflow_files.recognises(path)


def test_the_folder_of_artifacts_of_a_database_is_not_a_store(tmp_path: Path) -> None:
    build("mlflow", tmp_path / "mlflow.db")
    (tmp_path / "mlruns" / "1" / "models" / "m-1" / "artifacts").mkdir(parents=True)
    assert not mlflow_files.recognises(tmp_path / "mlruns")


def test_every_run_of_the_store_is_a_log_under_its_name(store: Path) -> None:
    logs = logs_in(mlflow_files, store)
    full, resumed = (_folder(store, "digits/cnn", n).name for n in (3, 2))
    assert {log.run for log in logs} == {
        f"digits/cnn-{full[:8]}",
        f"digits/cnn-{resumed[:8]}",
        "digits/without steps",
        "other/cnn",
    }
    assert [note for log in logs for note in log.notes] == ["1 deleted run left out"]


def test_histories_are_those_that_mlflow_reads(store: Path) -> None:
    logs = {log.path.name: log for log in logs_in(mlflow_files, store)}
    with_metrics = {run_id: run for run_id, run in RUNS.items() if run["history"]}
    assert set(logs) == set(with_metrics)
    for run_id, run in with_metrics.items():
        assert sorted(logs[run_id].header) == sorted(run["history"])
        if run["name"] == "without steps":
            with refused("missing: 5 … 'val_acc' … 0"):
                logs[run_id].points("val_acc")
            continue
        for name, rows in run["history"].items():
            expected = [(step, value) for _, step, value in rows]
            np.testing.assert_array_equal(cells(logs[run_id], name), expected)


def test_a_run_and_an_experiment_are_read_alone(store: Path) -> None:
    run = _folder(store, "other/cnn", 2)
    for path in (run, run.parent):
        (log,) = logs_in(mlflow_files, path)
        assert log.run == ""
        assert log.header == ("val/loss", "val_acc")


def test_checkpoints_among_artifacts_are_found_where_the_store_was_moved(store: Path) -> None:
    run = _folder(store, "other/cnn", 2)
    places = [str(run / "artifacts" / "checkpoints" / f"epoch_{epoch}") for epoch in range(5)]
    assert load(run).paths == tuple(places)


def test_checkpoints_among_artifacts_are_found_from_any_folder(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _folder(store, "other/cnn", 2)
    for here in (store, store.parent, run.parent, run):
        monkeypatch.chdir(here)
        for path in load(Path(os.path.relpath(run))).paths or ():
            assert path is not None
            assert Path(path).samefile(run / "artifacts" / "checkpoints" / Path(path).name)


def test_weights_that_were_logged_as_artifacts_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    client = package("mlflow").MlflowClient(str(tmp_path / "mlruns"))
    for place in ("", "checkpoints"):
        run = client.create_run("0").info
        for epoch in range(4):
            client.log_metric(run.run_id, "val_acc", 0.5 + epoch / 9, step=epoch)
            client.log_metric(run.run_id, "val_loss", 1 / (1 + epoch), step=epoch)
            weights = tmp_path / f"weights_{epoch}.pt"
            weights.write_bytes(b"w")
            client.log_artifact(run.run_id, str(weights), place)
        folder = tmp_path / "mlruns" / "0" / run.run_id
        names = [folder / "artifacts" / place / f"weights_{epoch}.pt" for epoch in range(4)]
        assert load(folder).paths == tuple(map(str, names))


def test_models_are_found_by_the_step_they_were_logged_with(store: Path) -> None:
    run = _folder(store, "digits/cnn", 3)
    folders = {}
    for model, step in RUNS[run.name]["models"].items():
        folders[step] = run.parent / "models" / model / "artifacts"
        folders[step].mkdir(exist_ok=True)
    assert sorted(folders) == [200, 400]
    (log,) = logs_in(mlflow_files, run)
    assert log.files == {step: str(folder) for step, folder in folders.items()}


def test_lines_are_read_in_the_order_of_their_times(store: Path) -> None:
    run = _folder(store, "other/cnn", 2)
    (run / "metrics" / "val_acc").write_text("20 0.5 1\n10 nan 2\n20 0.25 3\n\n")
    (log,) = logs_in(mlflow_files, run)
    assert log.points("val_acc").steps.tolist() == [2, 1, 3]
    assert log.points("val_acc").cells == ["nan", "0.5", "0.25"]


def test_a_line_may_name_a_data_set_and_one_that_is_cut_off_is_left_out(store: Path) -> None:
    run = _folder(store, "other/cnn", 2)
    (run / "metrics" / "val" / "loss").write_text("10 0.5 1 digits 3f2a\n20 0.6")
    (log,) = logs_in(mlflow_files, run)
    assert cells(log, "val/loss") == [(1, 0.5)]


def test_a_line_that_is_no_metric_is_refused_when_it_is_read(store: Path) -> None:
    run = _folder(store, "other/cnn", 2)
    odd = ("10", "10 0.5", "ten 0.5 1", "10 0.5 one", "10 0.5 1.5", "\x1b[31m a b")
    for line in (*odd, "9" * 5000 + " 1 1"):
        (run / "metrics" / "val_acc").write_text(f"10 0.5 1\n{line}\n")
        (log,) = logs_in(mlflow_files, run)
        assert len(cells(log, "val/loss")) == 5  # another metric does not suffer
        with refused("format: `timestamp value step` … val_acc … 2") as e:
            log.points("val_acc")
        assert str(e.value).isprintable()


def test_values_of_meta_yaml(tmp_path: Path) -> None:
    values = {
        " plain name": "plain name",
        " 'it''s: 1'": "it's: 1",
        ' "\\u00e9t\\u00e9"': "été",
        ' "broken\\x"': "broken\\x",
        " null": "",
        "": "",
    }
    for text, value in values.items():
        lines = f"tags: []\nname:{text}\n  name: nested\n- name: item\n"
        (tmp_path / "meta.yaml").write_text(lines)
        assert mlflow_files.meta(tmp_path)["name"] == value


def test_damaged_meta_yaml_is_no_store(store: Path) -> None:
    for file in store.rglob("meta.yaml"):
        file.write_bytes(b"\xff\x00\x80" * 100)
    assert not mlflow_files.recognises(store)


def test_deleted_runs_and_experiments_are_left_out(store: Path) -> None:
    run = _folder(store, "other/cnn", 2)
    experiment = run.parent / "meta.yaml"
    text = experiment.read_text()
    assert "lifecycle_stage: active" in text
    experiment.write_text(text.replace("lifecycle_stage: active", "lifecycle_stage: deleted"))
    assert "other/cnn" not in [log.run for log in logs_in(mlflow_files, store)]
    with refused("empty"):
        logs_in(mlflow_files, run.parent)


@requires("shared")
def test_a_real_store_of_other_people() -> None:
    (store,) = REAL.glob("*/mlruns")
    assert mlflow_files.recognises(store)
    assert not mlflow_store.recognises(store)
    (log,) = logs_in(mlflow_files, store)
    assert log.header == ("train_accuracy", "train_loss", "val_accuracy", "val_loss")
    for name in log.header:
        lines = (log.path / "metrics" / name).read_text().splitlines()
        expected = [(float(line.split()[2]), float(line.split()[1])) for line in lines]
        assert cells(log, name) == expected
    assert log.files == {}  # its model's step is MLflow's 0 for "no step"


@pytest.mark.parametrize(("named", "left_out", "of"), [(".", 5, 8), ("a", 2, 5), ("b", 3, 3)])
def test_runs_that_are_left_out_are_counted_in_the_folder_that_was_named(
    tmp_path: Path, named: str, left_out: int, of: int
) -> None:
    """A store with some runs that cannot be chosen from, and one with nothing else."""
    for store, wrong in (("a", 2), ("b", 3)):
        experiment = tmp_path / store / "mlruns" / "1"
        experiment.mkdir(parents=True)
        facts = f"artifact_location: x\nexperiment_id: '1'\nname: {store}\n"
        (experiment / "meta.yaml").write_text(facts)
        for number in range(wrong + 3 * (store == "a")):
            run = experiment / f"run{number}"
            (run / "metrics").mkdir(parents=True)
            (run / "meta.yaml").write_text(f"artifact_uri: x\nrun_id: run{number}\n")
            name = "train_loss" if number < wrong else "val_loss"
            values = "".join(f"{k} 0.{number}{k} {k}\n" for k in (1, 2, 3))
            (run / "metrics" / name).write_text(values)
    if left_out == of:
        with pytest.raises(InputError) as refusal:
            load_runs(tmp_path / named)
        assert refusal.value.code == "missing"
        return
    with pytest.warns(CheckwiseWarning) as said:
        assert len(load_runs(tmp_path / named)) == 3
    (warning,) = said
    assert str(warning.message).startswith(f"{left_out} of {of} runs in {tmp_path / named} ")
