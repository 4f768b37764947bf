"""What a log says does not depend on how its rows and columns are laid out."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import checkwise as cw
from checkwise.records import Trajectory
from tests.readers.logs.written_logs import WRITERS, Evaluation, evaluations, rows

UNRELATED = (
    "train_acc", "train_loss", "accuracy", "loss", "test_acc", "test_loss", "lr", "time", "note",
    "interval_access", "val_f1", "val_top5", "ood_acc", "val_acc_step",
)  # fmt: skip
CELLS = st.sampled_from(["", "nan", "-1", "1e308", "no number"]) | st.floats(0, 1).map(str)

files = pytest.mark.parametrize("file", WRITERS)
few = settings(max_examples=25, deadline=None)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def _facts(run: Trajectory) -> tuple[Any, ...]:
    values = {name: table.tolist() for name, table in run.values.items()}
    return run.steps.tolist(), values, cw.select(run).step, cw.select(run, "source-acc").step


def _load(folder: Path, file: str, records: list[dict[str, Any]], *header: str) -> Trajectory:
    return cw.load(WRITERS[file](folder / file, records, header))


@files
@few
@given(run=evaluations())
def test_the_log_holds_what_was_written(folder: Path, file: str, run: list[Evaluation]) -> None:
    read = _load(folder, file, rows(run))
    assert read.steps.tolist() == [one.step for one in run]
    assert read.values["accuracy"].ravel().tolist() == [one.right / 1000 for one in run]
    assert read.values["nll"].ravel().tolist() == [one.loss / 10_000 for one in run]


@files
@few
@given(run=evaluations(), data=st.data())
def test_unrelated_columns_do_not_matter(
    folder: Path, file: str, run: list[Evaluation], data: st.DataObject
) -> None:
    plain = _load(folder, file, rows(run))
    names = data.draw(st.lists(st.sampled_from(UNRELATED), min_size=1, unique=True))
    more = [row | {name: data.draw(CELLS) for name in names} for row in rows(run)]
    order = data.draw(st.permutations(["step", "val_acc", "val_loss", *names]))
    assert _facts(_load(folder, file, more, *order)) == _facts(plain)


@files
@few
@given(run=evaluations(), data=st.data())
def test_sparse_rows_are_joined(
    folder: Path, file: str, run: list[Evaluation], data: st.DataObject
) -> None:
    sparse: list[dict[str, Any]] = []
    filling = data.draw(st.sampled_from([{}, {"val_acc": "nan", "val_loss": "nan"}]))
    for row in rows(run):
        parts = [{"step": row["step"], name: row[name]} for name in ("val_acc", "val_loss")]
        parts.append({"step": row["step"], "train_loss": "0.5"})
        sparse += [filling | part for part in data.draw(st.permutations(parts))]
    assert _facts(_load(folder, file, sparse)) == _facts(_load(folder, file, rows(run)))


@files
@few
@given(first=evaluations(), second=evaluations())
def test_an_appended_run_is_a_run_of_its_own(
    folder: Path, file: str, first: list[Evaluation], second: list[Evaluation]
) -> None:
    start = first[0].step
    again = [Evaluation(one.step - second[0].step + start, one.right, one.loss) for one in second]
    parts = [_facts(_load(folder, file, rows(part))) for part in (first, again)]
    path = WRITERS[file](folder / file, rows(first) + rows(again))
    assert [_facts(run) for run in cw.load_runs(path).values()] == parts


@files
@few
@given(run=evaluations(4), lost=st.lists(st.integers(20, 999), min_size=2), data=st.data())
def test_a_resumed_run_is_the_run_without_what_was_replaced(
    folder: Path, file: str, run: list[Evaluation], lost: list[int], data: st.DataObject
) -> None:
    place = data.draw(st.integers(1, len(run) - 2))
    replaced = [
        Evaluation(one.step, right, 7_000) for one, right in zip(run[place:], lost, strict=False)
    ]
    path = WRITERS[file](folder / file, rows(run[:place] + replaced + run[place:]))
    (resumed,) = cw.load_runs(path).values()
    assert _facts(resumed) == _facts(_load(folder, file, rows(run)))
    assert any(f"resumed at {run[place].step}" in note for note in resumed.notes)


@files
@few
@given(run=evaluations())
def test_percent_and_fractions_choose_alike(folder: Path, file: str, run: list[Evaluation]) -> None:
    percent = _load(folder, file, rows(run, percent=True))
    assert _facts(percent) == _facts(_load(folder, file, rows(run)))
    assert any("in percent" in note for note in percent.notes)
