"""mmengine, DVCLive, W&B offline, AllenNLP, Detectron2, Flair: real logs, their checkpoints."""

from __future__ import annotations

import json
import shutil
import struct
import time
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import checkwise as cw
from checkwise.readers import wandb_offline
from tests.material import __file__ as here
from tests.refusals import refused, taken
from tests.requirements import package

MORE = Path(here).parent / "more"
# By the independent reading of `independent.py`: evaluations, choice, columns.
READ = {
    "ultralytics/results.csv": (10, 10, {"metrics/mAP50-95(B)"}),
    "mmengine": (59, 58, {"accuracy/top1"}),
    "mmengine/scalars.json": (59, 58, {"accuracy/top1"}),
    "mm0": (5, 25, {"AP"}),
    "allennlp": (10, 1, {"validation_accuracy", "validation_loss"}),
    "flair/loss.tsv": (5, 3, {"DEV_F1", "DEV_LOSS"}),
    "dvclive": (5, 703, {"val/acc", "val/loss"}),
    "dvclive/metrics.json": (5, 703, {"val/acc", "val/loss"}),
    "json/phases.json": (90, 81, {"val_acc", "val_loss"}),
    "json/best.json": (30, 0, {"val_acc", "val_loss"}),
    "catboost": (168, 68, {"test/RMSE"}),
    "wandb": (12, 11, {"val/acc", "val/loss"}),
}


def test_real_logs() -> None:
    found = {}
    for name, (_, _, columns) in READ.items():
        run = cw.load(MORE / name)
        read = columns & {*run.columns.values()}
        found[name] = (len(run), cw.select(run, guard=False).step, read)
    assert found == READ


def test_training_alone_is_refused() -> None:
    with refused("missing: EVAL_PERIOD"):
        cw.load(MORE / "detectron2")


CONSOLES = (
    "Epoch 1/3\n10/10 [===] - 2s - loss: 0.5 - val_loss: 0.4\nEpoch 2/3\n"
    "10/10 [===] - 2s - loss: 0.4 - val_loss: 0.3\n",
    "[0]\tvalid-mlogloss:1.2\n[1]\tvalid-mlogloss:1.1\n",
    "2023-01-01 10:00:00 - mmengine - INFO - Epoch(train) [1][50/69] lr: 1e-2 loss: 0.5\n" * 3,
    "[Epoch 1] train loss 0.5 val acc 0.7\n[Epoch 2] train loss 0.4 val acc 0.8\n",
    "epoch: 1, loss = 0.5\nepoch: 2, loss = 0.4\n",
)


def test_console_output_is_refused_as_such(tmp_path: Path) -> None:
    paths = [tmp_path / f"{k}" / n for k in range(5) for n in ("train.log", "out.txt", "nohup")]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text(CONSOLES[int(path.parent.name)])
    assert not taken((partial(cw.load, path), "unsupported: console output") for path in paths)


def test_a_grid_search_is_refused_as_such(tmp_path: Path) -> None:
    path = tmp_path / "cv_results.csv"
    path.write_text("mean_fit_time,params,mean_test_score\n0.1,{},0.9\n")
    with refused("unsupported: grid search … near_best"):
        cw.load(path)


def _work_dir(folder: Path, names: str, *, old: bool) -> Path:
    source = MORE / ("mm0" if old else "mmengine")
    place = folder if old else folder / "20240101_000000" / "vis_data"
    shutil.copytree(source, place, dirs_exist_ok=True)
    for number in range(1, 60):
        (folder / names.format(number)).write_bytes(b"weights")
    return folder


@pytest.mark.parametrize("old", [True, False])
def test_checkpoints_of_mm(old: bool, tmp_path: Path) -> None:
    run = cw.load(_work_dir(tmp_path, "epoch_{}.pth", old=old))
    chosen = cw.select(run, guard=False)
    assert chosen.path == str(tmp_path / f"epoch_{chosen.step}.pth") or (
        Path(chosen.path or "").samefile(tmp_path / f"epoch_{chosen.step}.pth")
    )


def test_mm_by_iterations(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    for k in range(1, 5):
        rows.append({"lr": 0.1, "data_time": 0.1, "loss": 1.0, "iter": 100 * k, "step": 100 * k})
        rows.append({"mIoU": 50.0 + k, "data_time": 0.1, "step": 100 * k})
    path = tmp_path / "20240101" / "vis_data" / "scalars.json"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "iter_400.pth").write_bytes(b"weights")
    run = cw.load(path)
    assert run.steps.tolist() == [400]
    assert str((run.paths or ("",))[0]).endswith("iter_400.pth")
    old = [
        row
        for k in range(1, 5)
        for row in (
            {"mode": "train", "epoch": 1 + k // 3, "iter": 100 * k, "lr": 0.1, "loss": 1.0},
            {"mode": "val", "epoch": 1 + k // 3, "iter": 7, "lr": 0.1, "mIoU": 0.5 + k / 100},
            {"mode": "test", "epoch": 1 + k // 3, "iter": 7, "lr": 0.1, "mIoU": 0.1},
        )
    ]
    place = tmp_path / "old" / "20200101.log.json"
    place.parent.mkdir()
    place.write_text("\n".join(map(json.dumps, old)))
    run = cw.load(place)
    assert run.steps.tolist() == [100, 200, 300, 400]
    assert run.values["mIoU"][:, 0].tolist() == [0.51, 0.52, 0.53, 0.54]


def test_detectron2(tmp_path: Path) -> None:
    lines = (MORE / "detectron2" / "metrics.json").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    for k, row in enumerate(rows):
        if k % 3 == 2:
            row |= {"bbox/AP": 30.0 + k, "bbox/AP50": 50.0, "segm/AP": 1.0 - k / 100}
            row["iteration"] = 1000 * k - 1
    (tmp_path / "metrics.json").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "model_0010999.pth").write_bytes(b"weights")
    chosen = cw.select(cw.load(tmp_path, include_unsaved=True))
    assert (chosen.step, chosen.judged_by and chosen.judged_by.metric) == (10999, "bbox/AP")
    assert (chosen.path or "").endswith("model_0010999.pth")
    assert any("DATASETS.TEST" in note for note in chosen.notes)


@pytest.mark.parametrize("beside", [{"datasets": "balloon_test"}, {"datasets": ["balloon_test"]}])
def test_detectron2_may_say_which_sets_it_evaluated(tmp_path: Path, beside: dict[str, Any]) -> None:
    rows = [{"iteration": k, "eta_seconds": 1.0, "bbox/AP": 30.0 + k, **beside} for k in range(3)]
    (tmp_path / "metrics.json").write_text("\n".join(map(json.dumps, rows)))
    with refused("held-out: balloon_test"):
        cw.load(tmp_path)


def test_checkpoints_of_allennlp(tmp_path: Path) -> None:
    shutil.copytree(MORE / "allennlp", tmp_path, dirs_exist_ok=True)
    (tmp_path / "metrics_epoch_01.json").write_text("{}")  # not AllenNLP's name of an epoch
    for epoch in range(10):
        (tmp_path / f"model_state_epoch_{epoch}.th").write_bytes(b"weights")
    chosen = cw.select(cw.load(tmp_path))
    assert chosen.path == str(tmp_path / "model_state_epoch_1.th")


def test_an_offline_run_of_wandb(tmp_path: Path) -> None:
    """Of many records, which lie in several blocks; long strings make records of several parts."""
    wandb = package("wandb")
    settings = wandb.Settings(console="off", x_disable_stats=True, silent=True)
    logged = []
    with wandb.init(project="p", mode="offline", dir=str(tmp_path), settings=settings) as run:
        for epoch in range(300):
            row = {"val": {"acc": 0.5 + epoch / 1000, "loss": 1 - epoch / 1000}, "epoch": epoch}
            run.log({**row, "note": "x" * (70_000 if epoch % 100 == 50 else 5), "test_acc": 0.9})
            logged.append(row)
    for _ in range(60):  # a busy machine writes the last block later
        read = cw.load(tmp_path / "wandb")
        if len(read) == len(logged):
            break
        time.sleep(0.5)
    assert read.steps.tolist() == list(range(300))
    assert read.values["accuracy"][:, 0].tolist() == [row["val"]["acc"] for row in logged]  # type: ignore[index]
    assert read.values["nll"][:, 0].tolist() == [row["val"]["loss"] for row in logged]  # type: ignore[index]


def _framed(records: list[bytes]) -> bytes:
    """LevelDB's log: parts of records in blocks of 32 KiB, none with less than its header left."""
    content = b":W&B\xe1\xbe\x00"
    for record in records:
        first, left = True, record
        while first or left:
            room = (1 << 15) - len(content) % (1 << 15)
            if room < 7:
                content += bytes(room)
                continue
            part, left = left[: room - 7], left[room - 7 :]
            kind = bytes([{(1, 1): 1, (1, 0): 2, (0, 0): 3, (0, 1): 4}[first, not left]])
            checksum = zlib.crc32(part, zlib.crc32(kind))
            content += struct.pack("<IH", checksum, len(part)) + kind + part
            first = False
    return content


def test_records_that_end_anywhere_in_a_block() -> None:
    for left in range(16):
        ends = b"a" * (32768 - 14 - left), b"d" * (32768 - left)
        records = [ends[0], b"b", b"", b"c" * 100_000, ends[1], b"e"]
        assert list(wandb_offline._records(_framed(records))) == records


def test_a_wandb_file_that_is_cut_off(tmp_path: Path) -> None:
    whole = (MORE / "wandb" / "run-digits.wandb").read_bytes()
    path = tmp_path / "run-cut.wandb"
    path.write_bytes(whole[: len(whole) * 2 // 3])
    run = cw.load(path)
    assert 0 < len(run) < 12
    assert any("cut off" in note for note in run.notes)
    path.write_bytes(whole[:7])
    with refused("empty: wandb.log"):
        cw.load(path)
