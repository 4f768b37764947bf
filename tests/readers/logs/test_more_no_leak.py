"""Whatever stands in a set, column or row of training or test changes nothing in newer formats."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import checkwise as cw
from checkwise.errors import InputError
from checkwise.readers import dvclive
from tests.material import __file__ as here
from tests.readers.logs.test_logs_no_leak import CELLS, JSON, SCALARS, unchanged
from tests.refusals import refused, taken

MORE = Path(here).parent / "more"
RIGHT, LOSS = (0.5, 0.9, 0.897), (0.9, 0.5, 0.4)
PLAIN = [cell for cell in CELLS if not set(cell) & set('",\n')]  # of tables that quote nothing

Write = Callable[[Path, Any], None]


def _lists(path: Path, value: Any) -> None:
    foreign = {f"{s}_{m}": [0.5, value, 0.5] for s in ("train", "test") for m in ("acc", "loss")}
    path.write_text(json.dumps({"val_acc": RIGHT, "val_loss": LOSS, **foreign}))


def _lengths(path: Path, value: Any) -> None:
    """Lists of another length each; of one, nothing tells their number from that of validation."""
    foreign = {f"{s}_acc": [value] * (4 + len(s)) for s in ("train", "test")}
    path.write_text(json.dumps({"val_acc": RIGHT, "val_loss": LOSS, **foreign}))


def _by_split(path: Path, value: Any) -> None:
    splits = {"train": [value] * 3, "test": [value, 0.5, value], "val": RIGHT}
    path.write_text(json.dumps({s: {"acc": v, "loss": LOSS} for s, v in splits.items()}))


def _trees(path: Path, value: Any) -> None:
    own = {"merror": [1 - one for one in RIGHT], "mlogloss": LOSS}
    other = {name: [0.1, value, 0.1] for name in own}
    sets = {"train": other, "learn": other, "a": own, "valid": own, "test": other, "ood": other}
    path.write_text(json.dumps(sets))


def _records(path: Path, value: Any) -> None:
    own = [{"acc": a, "loss": b} for a, b in zip(RIGHT, LOSS, strict=True)]
    rows = [{"epoch": k, "val": one, "test": {"acc": value}} for k, one in enumerate(own)]
    path.write_text(json.dumps({"seed": 1, "history": rows}))


def _mm(path: Path, value: Any) -> None:
    rows = []
    for k, right in enumerate(RIGHT, start=1):
        rows.append({"mode": "train", "epoch": k, "iter": 9, "loss": value, "lr": value})
        rows.append({"mode": "test", "epoch": k, "iter": 9, "mIoU": value, "split": value})
        rows.append({"mode": "val", "epoch": k, "iter": 9, "mIoU": right, "test/mIoU": value})
    path.write_text("\n".join(map(json.dumps, rows)))


def _mmengine(path: Path, value: Any) -> None:
    rows = []
    for k, right in enumerate(RIGHT, start=1):
        rows.append({"epoch": k, "iter": 9 * k, "step": 9 * k, "loss": value, "data_time": 1.0})
        rows.append({"step": k, "data_time": 1.0, "mIoU": right, "test/mIoU": value})
    path.write_text("\n".join(map(json.dumps, rows)))


def _detectron2(path: Path, value: Any) -> None:
    rows = [
        {"iteration": k, "eta_seconds": 1.0, "bbox/AP": one, "total_loss": value, "test/AP": value}
        for k, one in enumerate(RIGHT)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))


def _allennlp(path: Path, value: Any) -> None:
    path.mkdir(exist_ok=True)
    for k, right in enumerate(RIGHT):
        own = {"validation_accuracy": right, "validation_loss": LOSS[k]}
        other = {"training_accuracy": value, "test_accuracy": value}
        (path / f"metrics_epoch_{k}.json").write_text(json.dumps({**own, **other}))


def _catboost(path: Path, value: Any) -> None:
    names = [{"name": "Accuracy", "best_value": "Max"}, {"name": "MultiClass", "best_value": "Min"}]
    meta = {"test_sets": ["test"], "learn_sets": ["learn"], "test_metrics": names,
            "learn_metrics": names}  # fmt: skip
    rows = [
        {"iteration": k, "learn": [value, value], "test": [right, LOSS[k]], "passed_time": 1}
        for k, right in enumerate(RIGHT)
    ]
    path.write_text(json.dumps({"meta": meta, "iterations": rows}))


def _dvclive(path: Path, value: Any) -> None:
    for name, values in {"val/acc": RIGHT, "val/loss": LOSS, "test/acc": [value] * 3,
                         "train/acc": [value] * 3}.items():  # fmt: skip
        table = path / "plots" / "metrics" / f"{name}.tsv"
        table.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"step\t{table.stem}", *(f"{k}\t{cell}" for k, cell in enumerate(values))]
        table.write_text("\n".join(lines) + "\n")


def _table(path: Path, value: Any) -> None:
    lines = ["epoch\tdev_acc\tdev_loss\ttest_acc\ttrain_acc"]
    lines += [f"{k}\t{RIGHT[k]}\t{LOSS[k]}\t{value}\t{value}" for k in range(3)]
    path.write_text("\n".join(lines) + "\n")


def _field(number: int, content: bytes) -> bytes:
    def varint(value: int) -> bytes:
        low = value & 127
        return bytes([low]) if value < 128 else bytes([low | 128]) + varint(value >> 7)

    return varint(number << 3 | 2) + varint(len(content)) + content


def _framed(record: bytes) -> bytes:
    checksum = zlib.crc32(record, zlib.crc32(b"\x01"))
    return struct.pack("<IHB", checksum, len(record), 1) + record


def _item(name: str, cell: Any) -> bytes:
    return _field(1, _field(2, name.encode()) + _field(16, json.dumps(cell).encode()))


def _wandb(path: Path, value: Any, *, beside: Sequence[bytes] = ()) -> None:
    """Records of history alone, framed as W&B does; ``beside`` are further items of the first."""
    content = b":W&B\xe1\xbe\x00"
    for k, right in enumerate(RIGHT):
        row = {"_step": k, "val/acc": right, "val/loss": LOSS[k], "test/acc": value, "loss": value}
        items = [*itertools.starmap(_item, row.items()), *(() if k else beside)]
        content += _framed(_field(2, b"".join(items)))
    path.write_bytes(content)


WRITERS: Mapping[str, tuple[Write, tuple[Any, ...]]] = {
    "history.json": (_lists, JSON),
    "lengths.json": (_lengths, SCALARS),
    "splits.json": (_by_split, SCALARS),
    "trees.json": (_trees, SCALARS),
    "records.json": (_records, JSON),
    "None.log.json": (_mm, JSON),
    "scalars.json": (_mmengine, JSON),
    "metrics.json": (_detectron2, JSON),
    "allennlp": (_allennlp, JSON),
    "catboost_training.json": (_catboost, JSON),
    "dvclive": (_dvclive, tuple(PLAIN)),
    "loss.tsv": (_table, tuple(PLAIN)),
    "run-1.wandb": (_wandb, JSON),
}


def test_training_and_test(tmp_path: Path) -> None:
    for number, (file, (write, values)) in enumerate(WRITERS.items()):
        path = tmp_path / str(number) / file
        path.parent.mkdir()
        write(path, 0.5)
        assert len(cw.load(path)) == 3
        unchanged(path, partial(write, path), values)


# Formats without text beside the numbers.
NUMBERS = ("allennlp", "catboost_training.json", "trees.json", "lengths.json")


def _said(path: Path) -> None:
    """Add a cell that says test to a log."""
    if path.suffix == ".wandb":
        row = {"_step": 9, "val/acc": 0.99, "val/loss": 0.1, "phase": "test"}
        items = b"".join(itertools.starmap(_item, row.items()))
        path.write_bytes(path.read_bytes() + _framed(_field(2, items)))
        return
    table = path / "plots/metrics/val/acc.tsv" if path.is_dir() else path
    if table.suffix == ".tsv":
        ends = ("phase", "val", "val", "test")
        lines = zip(table.read_text().splitlines(), ends, strict=True)
        table.write_text("".join(f"{a}\t{b}\n" for a, b in lines))
        return
    try:
        document = json.loads(path.read_text())
        document["phase"] = "test"
        path.write_text(json.dumps(document))
    except ValueError:
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        rows[-1]["phase"] = "test"
        path.write_text("\n".join(map(json.dumps, rows)))


def test_a_cell_that_says_test_is_asked_about(tmp_path: Path) -> None:
    cases = []
    for number, file in enumerate(file for file in WRITERS if file not in NUMBERS):
        path = tmp_path / str(number) / file
        path.parent.mkdir()
        WRITERS[file][0](path, 0.5)
        _said(path)
        cases.append((partial(cw.load, path), "held-out: phase … test"))
    assert not taken(cases)


@pytest.mark.parametrize(("column", "cells"), [("split", "val test val"), ("is_test", "0 1 0")])
def test_cells_beside_a_metric_of_dvclive_are_heard(
    column: str, cells: str, tmp_path: Path
) -> None:
    _dvclive(tmp_path, 0.5)
    table = tmp_path / "plots/metrics/val/acc.tsv"
    ends = (column, *cells.split())
    lines = zip(table.read_text().splitlines(), ends, strict=True)
    table.write_text("".join(f"{a}\t{b}\n" for a, b in lines))
    with refused(f"held-out: {column}"):
        cw.load(tmp_path)


def test_tables_of_test_crowd_out_no_validation(tmp_path: Path) -> None:
    _dvclive(tmp_path, 0.5)
    clean = cw.load(tmp_path)
    for place in ("test", "other"):
        (tmp_path / "plots/metrics" / place).mkdir(exist_ok=True)
        for k in range(990):
            table = tmp_path / "plots/metrics" / place / f"m{k}.tsv"
            table.write_text(f"step\tm{k}\n0\t1\n")
    assert cw.load(tmp_path).digest == clean.digest
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dvclive, "MOST", 1_000)
        with refused("unsupported: 1,000"):
            cw.load(tmp_path)


def _named(path: Path, names: tuple[str, str]) -> None:
    """A table of two columns; in JSON lines with the fields of its trainer."""
    if path.suffix == ".csv":
        lines = [f"epoch,{','.join(names)},val/loss"]
        lines += [f"{k},{1 - RIGHT[k]},{RIGHT[k]},{LOSS[k]}" for k in range(3)]
        path.write_text("\n".join(lines) + "\n")
        return
    rows: list[dict[str, Any]] = []
    for k in range(3):
        own = {names[0]: 1 - RIGHT[k], names[1]: RIGHT[k]}
        if path.name == "scalars.json":
            rows.append({"epoch": k + 1, "iter": 9, "step": 9 * k + 9, "loss": 1, "data_time": 1.0})
            rows.append({"step": k + 1, "data_time": 1.0, **own})
        else:
            rows.append({"iteration": k, "eta_seconds": 1.0, **own})
    path.write_text("\n".join(map(json.dumps, rows)))


@pytest.mark.parametrize(
    ("file", "training", "validation"),
    [
        ("scalars.json", "train/accuracy/top1", "val/mIoU"),
        ("scalars.json", "train/accuracy/top1", "accuracy/top1"),
        ("metrics.json", "train/bbox/AP", "bbox/AP"),
        ("metrics.json", "train/bbox/AP", "val/bbox/AP"),
        ("results.csv", "metrics/train_acc", "metrics/val_f1"),
        ("results.csv", "metrics/train_acc", "metrics/accuracy_top1"),
        ("results.csv", "metrics/train_mAP50(B)", "metrics/mAP50(B)"),
    ],
)
def test_training_is_not_what_a_trainer_declares(
    file: str, training: str, validation: str, tmp_path: Path
) -> None:
    _named(tmp_path / file, (training, validation))
    with contextlib.suppress(InputError):  # nothing of validation that is known is left
        run = cw.load(tmp_path / file)
        assert training not in run.columns.values()


@pytest.mark.parametrize(
    "item",
    [
        _field(2, b"test/best") + _field(16, b"9" * 5_000),
        _field(2, b"test/best") + _field(16, b"[" * 60_000),
        _field(2, b"test/best") + _field(16, b"\xff"),
        _field(2, b"test\xff") + _field(16, b"0.5"),
        _field(1, b"test") + _field(1, b"\xff") + _field(16, b"0.5"),
    ],
)
def test_a_value_of_test_that_cannot_be_read_changes_nothing(item: bytes, tmp_path: Path) -> None:
    path = tmp_path / "run-1.wandb"
    _wandb(path, 0.5)
    clean = cw.load(path)
    _wandb(path, 0.5, beside=[_field(1, item)])
    assert cw.load(path).digest == clean.digest


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([_item("val/acc", 0.1)], "ambiguous: 'val/acc'"),
        ([_item("val", {"acc": 0.1})], "ambiguous: 'val/acc'"),
        ([_field(1, _field(1, b"val") + _field(1, b"acc") + _field(16, b"1"))], "ambiguous"),
        ([_field(1, _field(2, b"x") + _field(16, b"1") + _field(16, b"2"))], "ambiguous: 'x'"),
        ([_field(1, _field(2, b"x") + _field(16, b'{"a":1,"a":2}'))], "ambiguous: 'a'"),
        ([b"\x0a\x7f"], "format"),
    ],
)
def test_records_of_wandb_with_two_readings_are_refused(
    items: list[bytes], message: str, tmp_path: Path
) -> None:
    _wandb(tmp_path / "run-1.wandb", 0.5, beside=items)
    with refused(message):
        cw.load(tmp_path / "run-1.wandb")


def test_sets_that_are_held_out_may_have_any_length(tmp_path: Path) -> None:
    own = {"merror": [0.5, 0.2, 0.3], "mlogloss": [1.0, 0.5, 0.4]}
    clean = cw.Trajectory.from_history({"train": own, "valid": own, "test": own})
    for other in ({"merror": [0.1], "mlogloss": [0.1]}, {"merror": [9] * 7, "mlogloss": ["x"] * 7}):
        run = cw.Trajectory.from_history({"train": other, "valid": own, "test": other})
        assert (run.digest, run.notes) == (clean.digest, clean.notes)
        told = cw.Trajectory.from_history(
            {"train": other, "valid": own, "site": other}, held_out="site"
        )
        assert told.digest == clean.digest


@pytest.mark.parametrize("name", ["mmengine", "mm0", "dvclive", "catboost", "allennlp"])
def test_real_logs_hold_out_what_they_are_told(name: str, tmp_path: Path) -> None:
    shutil.copytree(MORE / name, tmp_path / name)
    with refused("empty: --held-out"):
        cw.load(tmp_path / name, held_out="validation")
    with refused("unknown: sketch"):
        cw.load(tmp_path / name, held_out="sketch")
