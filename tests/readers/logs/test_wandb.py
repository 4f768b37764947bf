"""W&B's exports, and its offline runs."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from checkwise.errors import InputError
from checkwise.readers import csv_file, wandb_offline
from checkwise.readers import wandb_csv as wandb_export
from checkwise.readers.log import WANDB
from tests.readers.logs.tracker_stores import MATERIAL, cells, logs_in
from tests.refusals import refused

Columns = dict[str, list[object]]


def _chart(path: Path, axis: str, along: list[object], columns: Columns) -> Path:
    """The export of a chart, as W&B writes it: every cell in quotes, extremes beside values."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        names = [f"{name}{ending}" for name in columns for ending in ("", "__MIN", "__MAX")]
        writer.writerow([axis, *names])
        for index, place in enumerate(along):
            values = [column[index] for column in columns.values()]
            writer.writerow([place, *(v for v in values for _ in range(3))])
    return path


ACCURACY: Columns = {"sage-owl-3 - val_acc": [0.5, 0.75, ""], "b - 2 - val_acc": ["", 0.5, "NaN"]}
LOSS: Columns = {"b - 2 - val_loss": [1.5, 1.25, 1.0], "sage-owl-3 - val_loss": [2, "", 1]}


def test_a_chart_is_a_log_for_every_run(tmp_path: Path) -> None:
    path = _chart(tmp_path / "any.name", "Step", [10, 20, 30], ACCURACY)
    assert wandb_export.recognises(path)
    first, second = logs_in(wandb_export, path)
    assert (first.run, second.run) == ("sage-owl-3", "b - 2")
    assert (first.header, first.trainer, first.axes) == (("val_acc",), WANDB, {"step": "Step"})
    assert cells(first, "val_acc") == [(10, 0.5), (20, 0.75)]
    np.testing.assert_array_equal(cells(second, "val_acc"), [(20, 0.5), (30, np.nan)])


def test_extremes_are_never_read(tmp_path: Path) -> None:
    path = _chart(tmp_path / "chart.csv", "Step", [10, 20, 30], ACCURACY)
    lines = path.read_text().splitlines()
    poisoned = [lines[0]]
    for line in lines[1:]:
        row = [cell.strip('"') for cell in line.split(",")]
        row[2:4] = row[5:7] = ["poison", "poison"]
        poisoned.append(",".join(row))
    path.write_text("\n".join(poisoned))
    log = logs_in(wandb_export, path)[0]
    assert cells(log, "val_acc") == [(10, 0.5), (20, 0.75)]


def test_charts_in_a_folder_are_joined_by_run(tmp_path: Path) -> None:
    _chart(tmp_path / "wandb_export_1.csv", "Step", [10, 20, 30], ACCURACY)
    _chart(tmp_path / "wandb_export_2.csv", "Step", [10, 20, 30], LOSS)
    (tmp_path / "other.csv").write_text("step,accuracy\n1,0.5\n")
    os.mkfifo(tmp_path / "pipe.csv")
    assert wandb_export.recognises(tmp_path)
    logs = {log.run: log for log in logs_in(wandb_export, tmp_path)}
    assert list(logs) == ["sage-owl-3", "b - 2"]
    assert all(log.header == ("val_acc", "val_loss") for log in logs.values())
    assert cells(logs["sage-owl-3"], "val_loss") == [(10, 2), (30, 1)]
    assert cells(logs["b - 2"], "val_loss") == [(10, 1.5), (20, 1.25), (30, 1.0)]


def test_one_run_needs_no_name(tmp_path: Path) -> None:
    columns: Columns = {"a - val_acc": [0.5], "a - val_loss": [1.0], "a - _step": [1]}
    (log,) = logs_in(wandb_export, _chart(tmp_path / "chart.csv", "Step", [1], columns))
    assert (log.run, log.header) == ("", ("val_acc", "val_loss"))


@pytest.mark.parametrize("axis", ["epoch", "Epoch", "train/epoch"])
def test_an_axis_of_epochs(tmp_path: Path, axis: str) -> None:
    path = _chart(tmp_path / "chart.csv", axis, [0, 1, 2], ACCURACY)
    log = logs_in(wandb_export, path)[0]
    points = log.points("val_acc")
    assert log.axes == {"epoch": axis}
    assert points.epochs.tolist() == [0, 1]
    assert np.isnan(points.steps).all()


@pytest.mark.parametrize("axis", ["Relative Time (Process)", "Relative Time (Wall)", "Wall Time"])
def test_an_axis_of_times_is_refused(tmp_path: Path, axis: str) -> None:
    path = _chart(tmp_path / "chart.csv", axis, [0, 1, 2], ACCURACY)
    with refused("format"):
        logs_in(wandb_export, path)


def test_two_axes_are_refused(tmp_path: Path) -> None:
    _chart(tmp_path / "1.csv", "Step", [10, 20, 30], ACCURACY)
    _chart(tmp_path / "2.csv", "epoch", [1, 2, 3], LOSS)
    with refused("ambiguous: 1.csv … 'Step' … 2.csv … 'epoch'"):
        logs_in(wandb_export, tmp_path)


def test_the_same_chart_twice_is_refused_when_it_is_read(tmp_path: Path) -> None:
    for name in ("1.csv", "2.csv"):
        _chart(tmp_path / name, "Step", [10, 20, 30], ACCURACY)
    _chart(tmp_path / "3.csv", "Step", [10, 20, 30], LOSS)
    log = logs_in(wandb_export, tmp_path)[0]
    assert cells(log, "val_loss") == [(10, 2), (30, 1)]
    with refused("ambiguous: 1.csv … 2.csv"):
        log.points("val_acc")


def test_two_runs_of_one_name_are_refused(tmp_path: Path) -> None:
    path = _chart(tmp_path / "chart.csv", "Step", [10, 20, 30], ACCURACY)
    path.write_text(path.read_text().replace("b - 2", "sage-owl-3"))
    with refused("ambiguous: 'sage-owl-3 - val_acc'"):
        logs_in(wandb_export, path)


def test_names_with_control_characters_are_escaped(tmp_path: Path) -> None:
    columns: Columns = {"\x1b[31m - val_acc": [1], "../../x - val_acc": [1]}
    logs = logs_in(wandb_export, _chart(tmp_path / "chart.csv", "Step", [1], columns))
    assert [log.run for log in logs] == ["\\x1b[31m", "../../x"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"30"', '"30","7"', "format: 7 … 4 … 8"),
        ('"30",', '"30","', "format: chart.csv … 4"),
        ('"20"', '"\x1bnow"', "format: 'Step' … '\\x1bnow'"),
        ("0.75", "0.75\udcff", "format: UTF-8"),
    ],
)
def test_damage_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = _chart(tmp_path / "chart.csv", "Step", [10, 20, 30], ACCURACY)
    text = path.read_text(encoding="utf-8").replace(old, new, 1)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with refused(message):
        logs_in(wandb_export, path)[0].points("val_acc")


@pytest.mark.parametrize(
    "header",
    ["", "Step", "step,accuracy", "Step,a - b", "Step,a - b,a - b__MIN", '"', "x,a__MIN,a__MAX,a"],
)
def test_other_tables_are_not_charts(tmp_path: Path, header: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(header)
    assert not wandb_export.recognises(path)
    assert not wandb_export.recognises(tmp_path)


def test_a_history_is_read_along_the_steps_of_the_training(tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    path.write_text(
        ",_step,_runtime,_timestamp,eval/loss,train/loss,train/global_step,train/epoch\n"
        "0,0,1.5,1700000000,,2.0,100,0.5\n"
        "1,1,2.5,1700000001,1.5,,200,1\n"
        "2,2,3.5,1700000002,1.25,,400,2\n"
    )
    assert not wandb_export.recognises(path)
    (log,) = logs_in(csv_file, path)
    assert log.trainer is WANDB
    assert log.axes == {"step": "train/global_step", "epoch": "train/epoch"}
    assert cells(log, "eval/loss") == [(200, 1.5), (400, 1.25)]


def test_an_offline_run_without_history_says_what_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "wandb" / "offline-run-20260101_120000-abc"
    folder.mkdir(parents=True)
    file = folder / "run-abc.wandb"
    file.write_bytes((MATERIAL / "offline.wandb").read_bytes() + b"messages")
    assert not wandb_offline.recognises(folder.parent)
    for path in (file, folder):
        assert wandb_offline.recognises(path)
        with pytest.raises(InputError, match=rf"`wandb sync {folder}`, then export .* as CSV"):
            logs_in(wandb_offline, path)


def test_other_files_are_no_offline_runs(tmp_path: Path) -> None:
    file = tmp_path / "run-abc.wandb"
    file.write_text("val_acc\n")
    assert not wandb_offline.recognises(file)
    assert not wandb_offline.recognises(tmp_path)
    assert not wandb_offline.recognises(tmp_path / "missing")
