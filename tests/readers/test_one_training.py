"""One training with several accounts is one run, and a callback's log leads to its checkpoints."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.readers import one_training
from checkwise.readers.request import LoadedRun, Request
from tests.readers.logs.event_bytes import scalar, version

ACCURACIES = (0.5, 0.75, 0.9, 0.8125)
LOSSES = (1.2, 0.8123456789, 0.4, 0.5)
BESIDE = [
    ("csv/version_0", "checkpoints"),  # Hydra's template
    ("logs/csv/version_0", "weights/mine"),
    ("version_0", "version_0/checkpoints"),
    (".", "."),
]


def train(folder: Path, log: str, checkpoints: str, *, off: float = 0, **options: Any) -> None:
    """A live selection with its files, and a log that counts one step less, in 32 bits."""
    (folder / checkpoints).mkdir(parents=True, exist_ok=True)
    with cw.LiveSelector(
        "ac-nll", journal=folder / checkpoints / "checkwise.jsonl", **options
    ) as live:
        for k, (accuracy, loss) in enumerate(zip(ACCURACIES, LOSSES, strict=True), start=1):
            live.add(100 * k, {"val": {"accuracy": accuracy, "nll": loss, "n": 800}})
            weights = folder / checkpoints / f"epoch={k - 1}-step={100 * k}.ckpt"
            weights.write_bytes(b"x")
            live.saved(100 * k, weights)
        write_log(folder / log / "metrics.csv", off=off)


def write_log(path: Path, *, off: float = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        f"{k},{100 * k + 99},{np.float32(accuracy)},{np.float32(loss + off)},800\n"
        for k, (accuracy, loss) in enumerate(zip(ACCURACIES, LOSSES, strict=True))
    ]
    header = "epoch,step,checkwise/val/accuracy,checkwise/val/nll,checkwise/val/n\n"
    path.write_text(header + "".join(rows))


@pytest.mark.parametrize(("log", "checkpoints"), BESIDE)
@pytest.mark.parametrize("named", [".", "{log}", "{log}/metrics.csv"])
def test_a_log_and_the_journal_of_its_callback_are_one_run(
    tmp_path: Path, log: str, checkpoints: str, named: str
) -> None:
    train(tmp_path, log, checkpoints)
    run = cw.load(tmp_path / named.format(log=log))  # refuses two
    chosen = cw.select(run)
    assert chosen.step == 300
    assert chosen.path == str(tmp_path / checkpoints / "epoch=2-step=300.ckpt")


def test_trainings_side_by_side_stay_two_even_with_equal_values(tmp_path: Path) -> None:
    for name in ("a", "b"):
        train(tmp_path / name, "csv/version_0", "checkpoints")
    runs = cw.load_runs(tmp_path)
    assert len(runs) == 2
    assert {Path(cw.select(run).path or "").parent.parent.name for run in runs.values()} == {
        "a",
        "b",
    }
    run = cw.load(tmp_path / "b" / "csv")
    assert cw.select(run).path == str(tmp_path / "b" / "checkpoints" / "epoch=2-step=300.ckpt")


def test_a_log_of_other_values_is_another_run(tmp_path: Path) -> None:
    train(tmp_path, "csv", "checkpoints", off=0.01)
    assert len(cw.load_runs(tmp_path)) == 2


def test_a_log_beside_the_journal_chooses_as_the_callback_was_set(tmp_path: Path) -> None:
    train(tmp_path, "csv/version_0", "checkpoints", delta_pp=50, ties="latest")
    log = tmp_path / "csv" / "version_0" / "metrics.csv"
    beside = cw.select(cw.load(log))
    assert beside.reason == "as the callback was set: delta_pp 50, ties latest"
    assert len(beside.feasible_steps) == len(ACCURACIES)
    (tmp_path / "checkpoints" / "checkwise.jsonl").unlink()
    alone = cw.select(cw.load(log))
    assert alone.trajectory.chosen_by == {}
    assert alone.params["delta_pp"] == 0.5


def test_a_journal_that_cannot_be_read_leaves_the_log(tmp_path: Path) -> None:
    train(tmp_path, "csv/version_0", "checkpoints", delta_pp=50)
    journal = tmp_path / "checkpoints" / "checkwise.jsonl"
    journal.write_text(journal.read_text().replace('"schema":2', '"schema":1'))
    run = cw.load(tmp_path / "csv")
    assert cw.select(run).index == 2
    assert run.chosen_by == {}


@pytest.mark.parametrize(("off", "runs"), [(0, 1), (0.001, 2)])
def test_two_loggers_without_a_callback_are_one_run(tmp_path: Path, off: float, runs: int) -> None:
    pairs = [*zip(ACCURACIES, LOSSES, strict=True)]
    csv = tmp_path / "csv" / "version_0" / "metrics.csv"
    csv.parent.mkdir(parents=True)
    csv.write_text(
        "epoch,step,val_acc,val_loss\n"
        + "".join(f"{k},{100 * k + 99},{a},{loss}\n" for k, (a, loss) in enumerate(pairs))
    )
    events = tmp_path / "tensorboard" / "version_0" / "events.out.tfevents.1.host"
    events.parent.mkdir(parents=True)
    records = [
        scalar(100 * k + 99, name, value + off)
        for k, pair in enumerate(pairs)
        for name, value in zip(("val_acc", "val_loss"), pair, strict=True)
    ]
    events.write_bytes(b"".join((version(), *records)))
    assert len(cw.load_runs(tmp_path)) == runs
    checkpoint = tmp_path / "tensorboard" / "version_0" / "checkpoints" / "epoch=2-step=300.ckpt"
    checkpoint.parent.mkdir()
    checkpoint.write_bytes(b"x")
    read = cw.load_runs(tmp_path).values()
    assert len(read) == runs
    assert str(checkpoint) in [cw.select(run).path for run in read]


def test_two_logs_of_a_detector_are_one_training(tmp_path: Path) -> None:
    score, loss = [0.1, 0.3, 0.2, 0.4], [4.0, 3.0, 2.5, 2.0]
    rows = [f"{k},{a},{b}" for k, (a, b) in enumerate(zip(score, loss, strict=True))]
    (tmp_path / "log.csv").write_text("\n".join(["epoch,val_map,val_loss", *rows]) + "\n")
    (tmp_path / "history.json").write_text(json.dumps({"val_map": score, "val_loss": loss}))
    assert len(cw.load_runs(tmp_path)) == 1


def test_runs_of_one_database_are_not_compared(tmp_path: Path) -> None:
    rows = "".join(f"{step},{accuracy}\n" for step, accuracy in enumerate(ACCURACIES))
    (tmp_path / "log.csv").write_text("step,val_acc\n" + rows)
    trajectory = cw.load(tmp_path / "log.csv")
    taken = []
    for n in (500, 500, 2000, 2000):
        store = [LoadedRun(None, trajectory, f"{k}", tmp_path / "study.db") for k in range(n)]
        log = LoadedRun(None, trajectory, "log", tmp_path / "log.csv")
        started = time.process_time()
        assert one_training.once([*store, log], Request()) == store
        taken.append(time.process_time() - started)
    assert min(taken[2:]) < 9 * max(taken[:2])
