"""Whatever the bytes, a reader answers with a trajectory or an InputError."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from checkwise.errors import InputError
from checkwise.readers import load_runs
from tests.readers.samples import (
    domainbed,
    extended,
    predictions_folder,
    swad_file,
    table_rows,
    write_csv,
    write_lines,
)

STEPS = (0, 100)
NAMES = ("results.jsonl", "run.csv", "run.parquet", "run.jsonl")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def _read(path: Path) -> int:
    """How many runs came out; anything but an InputError of one line is a failure."""
    try:
        return len(load_runs(path))
    except InputError as error:
        said = str(error)
    assert "\n" not in said
    return 0


@settings(max_examples=150, deadline=None)
@given(name=st.sampled_from(NAMES), data=st.binary(max_size=200))
@example(name="run.csv", data=b"step,accuracy\n0,0.5\r0,\0")
@example(name="run.parquet", data=b"PAR1PAR1")
def test_arbitrary_bytes(folder: Path, name: str, data: bytes) -> None:
    (folder / name).write_bytes(data)
    _read(folder / name)


def _whole(folder: Path, kind: str) -> Path:
    if kind == "domainbed":
        return write_lines(folder / "results.jsonl", map(domainbed, STEPS))
    if kind == "extended":
        return write_lines(folder / "results.jsonl", map(extended, STEPS))
    if kind == "swad":
        return write_lines(folder / "results.jsonl", swad_file())
    if kind == "csv":
        return write_csv(folder / "run.csv", table_rows())
    if kind == "jsonl":
        return write_lines(folder / "run.jsonl", table_rows())
    if kind == "parquet":
        pd.DataFrame(table_rows()).to_parquet(folder / "run.parquet")
        return folder / "run.parquet"
    return predictions_folder(folder / "saved", STEPS) / "step-000000" / "art.npz"


KINDS = ("domainbed", "extended", "swad", "csv", "jsonl", "parquet", "npz")


@settings(max_examples=150, deadline=None)
@given(kind=st.sampled_from(KINDS), cut=st.floats(0, 1), flip=st.integers(0, 255))
@example(kind="parquet", cut=0.06671399776633803, flip=1)  # pages without rows
def test_files_cut_or_changed_at_any_byte(kind: str, cut: float, flip: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = _whole(Path(name), kind)
        run = path.parents[1] if kind == "npz" else path
        data = path.read_bytes()
        at = min(int(cut * len(data)), len(data) - 1)
        assert _read(run) > 0
        path.write_bytes(data[:at])
        _read(run)
        path.write_bytes(data[:at] + bytes([flip]) + data[at + 1 :])
        _read(run)


def test_a_log_cut_at_every_byte_keeps_all_whole_records(folder: Path) -> None:
    path = write_lines(folder / "results.jsonl", map(domainbed, STEPS))
    data = path.read_bytes()
    first = data.index(b"\n")
    for cut in range(0, len(data), 7):
        path.write_bytes(data[:cut])
        if cut < first:
            with pytest.raises(InputError):
                load_runs(path)
        else:
            (run,) = load_runs(path).values()
            assert len(run) == (2 if cut >= len(data) - 1 else 1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = (
    "args", "hparams", "step", "env0_out_acc", "env1_out_acc", "env0_out", "tr_outloss",
    "per_domain_calibration", "per_domain_class_calibration", "accuracy", "domain", "role", "n",
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(data=st.data(), kind=st.sampled_from(["domainbed", "extended", "swad", "jsonl"]))
def test_any_json_value_in_any_field(folder: Path, data: st.DataObject, kind: str) -> None:
    path = _whole(folder, kind)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        changes: dict[str, Any] = data.draw(
            st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=2)
        )
        record.update(changes)
    _read(write_lines(path, records))


ENTRY_FIELDS = (
    "domain_index",
    "domain_name",
    "split",
    "role",
    "accuracy",
    "nll",
    "n",
    "class_accuracy",
)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_json_value_in_any_calibration_entry(folder: Path, data: st.DataObject) -> None:
    records = [extended(step) for step in STEPS]
    for record in records:
        for field in ("per_domain_calibration", "per_domain_class_calibration"):
            entry = data.draw(st.sampled_from(record[field]))
            entry[data.draw(st.sampled_from(ENTRY_FIELDS))] = data.draw(JSON)
    _read(write_lines(folder / "results.jsonl", records))
