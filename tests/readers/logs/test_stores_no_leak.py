"""Whatever stands in a training or test series of an event file or a tracker, nothing changes."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.readers.logs.test_logs_no_leak import RUN, SCALARS, answer, unchanged
from tests.readers.logs.tracker_stores import MATERIAL, build
from tests.requirements import package

FLOATS = (float("nan"), float("inf"), float("-inf"), 1e308, -1.0, 0.999)
FOREIGN_TAGS = ("train/loss", "train/accuracy", "test/accuracy", "test/loss", "ood/accuracy", "lr")


def _write_events(path: Path, tags: dict[str, list[Any]]) -> None:
    """An event file by TensorBoard's own writer; text becomes a text summary."""
    events = package("tensorboard.compat.proto.event_pb2")
    records = package("tensorboard.summary.writer.record_writer")
    text = package("tensorboard.plugins.text.summary_v2")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        writer = records.RecordWriter(file)
        writer.write(events.Event(wall_time=1, file_version="brain.Event:2").SerializeToString())
        for place, one in enumerate(RUN):
            for tag, series in tags.items():
                value = series[place]
                if value is None:
                    continue
                event = events.Event(wall_time=2 + place, step=one.step)
                if isinstance(value, str):
                    event.summary.MergeFrom(text.text_pb(tag, value))
                else:
                    event.summary.value.add(tag=tag, simple_value=value)
                writer.write(event.SerializeToString())


ACCURACY = [one.right / 1000 for one in RUN]
LOSS = [one.loss / 10_000 for one in RUN]


def test_tags_of_one_event_file(tmp_path: Path) -> None:
    path = tmp_path / "events.out.tfevents.1.host"

    def write(value: Any) -> None:
        foreign = {tag: [value] * len(RUN) for tag in FOREIGN_TAGS}
        _write_events(path, {**foreign, "eval/accuracy": ACCURACY, "eval/loss": LOSS})

    write(0.5)
    unchanged(path, write, [*FLOATS, "text", None])


def test_folders_of_event_files(tmp_path: Path) -> None:
    run = tmp_path / "run"
    name = "events.out.tfevents.1.host"
    own = {"epoch_accuracy": ACCURACY, "epoch_loss": LOSS}
    _write_events(run / "validation" / name, own)

    def write(value: Any) -> None:
        for folder in ("train", "test"):
            _write_events(run / folder / name, {tag: [value] * len(RUN) for tag in own})

    write(0.5)
    unchanged(run, write, [*FLOATS, "text"])


@pytest.fixture
def mlflow(tmp_path: Path) -> Path:
    """A store in which every run has a test metric at each of its steps."""
    copied = (
        "DELETE FROM metrics WHERE run_uuid IN (SELECT run_uuid FROM runs WHERE name = "
        "'without steps');"
        "INSERT INTO metrics (key, value, timestamp, run_uuid, step, is_nan) "
        "SELECT 'test_acc', value, timestamp, run_uuid, step, is_nan FROM metrics "
        "WHERE key = 'val_acc';"
    )
    return build("mlflow", tmp_path / "mlflow.db", changes=copied)


def test_metrics_in_mlflows_database(mlflow: Path) -> None:
    def write(value: Any) -> None:
        with closing(sqlite3.connect(mlflow)) as store:
            store.execute(
                "UPDATE OR IGNORE metrics SET value = ?, is_nan = ? "
                "WHERE key LIKE 'test%' OR key LIKE 'train%'",
                (value, value != value),
            )
            store.commit()

    unchanged(mlflow, write, [1e308, -1, "text", b"\x00", 0.999])


def test_metrics_in_mlflows_files(tmp_path: Path) -> None:
    store = tmp_path / "mlruns"
    shutil.copytree(MATERIAL / "mlruns", store)
    for name in store.glob("*/*/tags/mlflow.runName"):
        if name.read_text() == "without steps":
            shutil.rmtree(name.parents[1])
    runs = [path.parent for path in store.glob("*/*/metrics/val_acc")]
    assert runs

    def write(value: str) -> None:
        for folder in runs:
            lines = (folder / "val_acc").read_text().splitlines()
            spoilt = "".join(f"{line.split()[0]} {value} {line.split()[2]}\n" for line in lines)
            for name in ("test_acc", "train_loss"):
                (folder / name).write_text(spoilt)

    write("0.5")
    unchanged(store, write, ["nan", "inf", "-1", "1e308", "text", "", "\x00"])


def test_metrics_in_trackios_database(tmp_path: Path) -> None:
    path = build("trackio", tmp_path / "project.db")

    def write(value: Any) -> None:
        with closing(sqlite3.connect(path)) as store:
            rows = store.execute("SELECT id, metrics FROM metrics").fetchall()
            for number, text in rows:
                metrics = json.loads(text)
                if not isinstance(metrics, dict):
                    continue
                spoilt = {"train_loss": value, "test_acc": value, "test/loss": value}
                store.execute(
                    "UPDATE metrics SET metrics = ? WHERE id = ?",
                    (json.dumps({**metrics, **spoilt}), number),
                )
            store.commit()

    write(0.5)
    unchanged(path, write, SCALARS)


@pytest.mark.filterwarnings("ignore::checkwise.errors.CheckwiseWarning")  # one is left out
def test_studies_of_optuna(tmp_path: Path) -> None:
    """A study that is called test, and what users have written beside the trials of another."""
    of_test = (
        "INSERT INTO studies SELECT 2, 'test' FROM studies;"
        "INSERT INTO study_directions (direction, study_id, objective) VALUES ('MAXIMIZE', 2, 0);"
        "INSERT INTO study_system_attributes (study_id, key, value_json) "
        "SELECT 2, key, value_json FROM study_system_attributes;"
        "INSERT INTO trials (trial_id, number, study_id, state) VALUES (9, 0, 2, 'COMPLETE');"
        "INSERT INTO trial_intermediate_values "
        "(trial_id, step, intermediate_value, intermediate_value_type) "
        "SELECT 9, step, 0.5, 'FINITE' FROM trial_intermediate_values WHERE trial_id = 1"
    )
    path = build("optuna", tmp_path / "study.db", changes=of_test)

    def write(value: Any) -> None:
        with closing(sqlite3.connect(path)) as store:
            store.execute(
                "UPDATE trial_intermediate_values SET intermediate_value = ? WHERE trial_id = 9",
                (value,),
            )
            store.execute("UPDATE trial_user_attributes SET value_json = ?", (json.dumps(value),))
            store.commit()

    write(0.25)
    unchanged(path, write, [0.999, 1e308, -1.0, 0.0])


def test_results_of_ray(tmp_path: Path) -> None:
    (folder, *_) = sorted((MATERIAL / "ray").iterdir())
    trial = tmp_path / "trial"
    shutil.copytree(folder, trial)
    (trial / "progress.csv").unlink(missing_ok=True)
    records = [json.loads(line) for line in (trial / "result.json").read_text().splitlines()]

    def write(value: Any) -> None:
        spoilt = {"train_loss": value, "test_acc": value, "test_loss": value}
        lines = [json.dumps({**record, **spoilt}) + "\n" for record in records]
        (trial / "result.json").write_text("".join(lines))

    write(0.5)
    assert answer(trial)
    unchanged(trial, write, SCALARS)
