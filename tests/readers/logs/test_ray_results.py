"""Ray Tune's result.json."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checkwise.readers import ray as ray_results
from checkwise.readers.log import RAY
from tests.readers.logs.tracker_stores import MATERIAL, cells, logs_in, own_reading
from tests.refusals import refused

TRIALS = own_reading("ray")


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MATERIAL / "ray" / min(TRIALS), tmp_path / "trial"))


def _append(trial: Path, **fields: Any) -> None:
    record = {"training_iteration": 6, "trial_id": "x"} | fields
    with (trial / "result.json").open("a") as file:
        file.write(json.dumps(record) + "\n")


def test_a_trial_is_recognised_by_its_records(trial: Path) -> None:
    assert ray_results.recognises(trial)
    renamed = (trial / "result.json").rename(trial / "any.name")
    assert ray_results.recognises(renamed)
    assert not ray_results.recognises(trial)
    assert not ray_results.recognises(trial / "progress.csv")
    assert not ray_results.recognises(trial.parent)


def test_other_json_is_not_recognised(tmp_path: Path) -> None:
    one_of_two = ('{"training_iteration": 1}', '{"trial_id": "x"}')
    for text in ("", "{", "[1]", *one_of_two, "[" * 100_000):
        (tmp_path / "result.json").write_text(text)
        assert not ray_results.recognises(tmp_path), text[:40]


def test_metrics_are_those_that_ray_reads() -> None:
    for name, rows in TRIALS.items():
        (log,) = logs_in(ray_results, MATERIAL / "ray" / name)
        assert log.header == ("val_acc", "val/loss")
        assert (log.trainer, log.run, log.axes) == (RAY, "", {"step": "training_iteration"})
        for column in log.header:
            expected = [
                (row["training_iteration"], np.nan if row[column] is None else row[column])
                for row in rows
            ]
            np.testing.assert_array_equal(cells(log, column), expected)


def test_a_checkpoint_belongs_to_the_iteration_that_names_it(trial: Path) -> None:
    (log,) = logs_in(ray_results, trial)
    # The third iteration saved nothing, so numbers and iterations drift apart.
    names = {1: "000000", 2: "000001", 4: "000002", 5: "000003"}
    assert log.files == {i: str(trial / f"checkpoint_{name}") for i, name in names.items()}
    shutil.rmtree(trial / "checkpoint_000001")
    (log,) = logs_in(ray_results, trial)
    assert sorted(log.files) == [1, 4, 5]


def test_a_checkpoint_elsewhere_is_not_named(trial: Path) -> None:
    (trial.parent / "outside").mkdir()
    for number, name in enumerate(
        ("../outside", "/", "..", ".", "", "a/b", "a\0b", 7, None, ["x"])
    ):
        _append(trial, training_iteration=6 + number, checkpoint_dir_name=name)
    (log,) = logs_in(ray_results, trial)
    assert sorted(log.files) == [1, 2, 4, 5]


def test_a_restored_trial_keeps_the_order_of_its_records(trial: Path) -> None:
    _append(trial, training_iteration=5, val_acc=0.1)
    _append(trial, training_iteration=6, val_acc=0.2)
    (log,) = logs_in(ray_results, trial / "result.json")
    assert log.points("val_acc").steps.tolist() == [1, 2, 3, 4, 5, 5, 6]


def test_epochs_are_an_axis_where_they_are_logged(tmp_path: Path) -> None:
    for iteration in (1, 2):
        _append(tmp_path, training_iteration=iteration, epoch=iteration * 2, val_acc=0.5)
    (log,) = logs_in(ray_results, tmp_path)
    assert log.axes == {"step": "training_iteration", "epoch": "epoch"}
    assert log.points("val_acc").epochs.tolist() == [2, 4]
    assert log.header == ("val_acc",)


def test_a_line_cut_off_is_left_out_and_reported(trial: Path) -> None:
    result = trial / "result.json"
    result.write_bytes(result.read_bytes()[:-30])
    (log,) = logs_in(ray_results, trial)
    assert len(cells(log, "val_acc")) == 4
    assert log.notes == ("the last line (5) was cut off and is not read",)


def test_a_line_cut_off_in_the_middle_is_refused(trial: Path) -> None:
    result = trial / "result.json"
    first, *rest = result.read_text().splitlines()
    result.write_text("\n".join([first, rest[0][:50], *rest[1:]]))
    with refused("format: result.json … 2 … JSON"):
        logs_in(ray_results, trial)


def test_odd_values_harm_no_other_column(trial: Path) -> None:
    _append(trial, training_iteration="six", val_acc="oops", val={"loss": {"deep": [1]}})
    _append(trial, training_iteration=10**400, val_acc=0.5)
    (log,) = logs_in(ray_results, trial)
    points = log.points("val_acc")
    assert points.cells[-2:] == ["oops", 0.5]
    assert np.isnan(points.steps[-2:]).all()
    assert len(cells(log, "val/loss")) == 5
