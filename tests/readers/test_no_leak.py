"""Removing, scrambling or poisoning anything of a target leaves the trajectory as it was."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import checkwise as cw
from checkwise.cli import main
from checkwise.metrics import METRICS
from checkwise.readers import RUN_COLUMNS, load_runs
from checkwise.records import FACTS, RunKey
from tests.readers.samples import (
    STEPS,
    TARGET,
    Record,
    domainbed,
    extended,
    predictions_folder,
    swad,
    swad_file,
    table_rows,
    write_csv,
    write_lines,
)
from tests.refusals import refused
from tests.study.cohorts import tiny_runs, write_cohort

GONE = object()
POISON = st.floats(0, 1) | st.sampled_from(
    [GONE, None, float("nan"), float("inf"), -1, 0.0, 1.0, 1e300, 10**300, "poison", "", True, [],
     {}]
)  # fmt: skip
CELLS = st.floats(0, 1) | st.sampled_from(
    ["", "nan", "inf", "-1", "0.0", "1e300", "poison", "True"]
)

# How a row may say that it is of test, in a column of any name.
NESTED: list[Callable[[str], Any]] = [
    lambda word: word,
    lambda word: [word],
    lambda word: {"name": word},
    lambda word: {"meta": {"split": ["x", word]}},
    lambda word: {"a": [{"b": f"id_{word}"}]},
]
WORDS = (
    *("test", "test_set", "Held-Out", "ood", "testloader", "t\u0435st", "photo_test", "target"),
    "t e s t",
)
# Columns whose cells need no such word, with one of validation and one of test.
CODED: list[tuple[str, Any, Any]] = [
    *((column, *cells) for column in ("split", "subset", "phase", "loader")
      for cells in ((0, 1), ("0", "1"), ("va", "te"), ("dev", "eval"))),
    *(("seen", *cells) for cells in ((1, 0), (True, False), ("yes", "no"))), ("unseen_rows", 0, 1),
]  # fmt: skip
COLUMNS = (
    "phase", "mode", "stage", "fold", "loader", "dataset", "split", "notes", "meta", "path", "",
)  # fmt: skip
OWN_COLUMNS = {*FACTS, *RUN_COLUMNS, *METRICS} - {"dataset", "split", "path"}

Facts = dict[RunKey, tuple[Any, ...]]


def _facts(path: Path) -> Facts:
    """Everything a selection or its printout could take from an input."""
    return {
        key: (run.digest, run.identity, run.domains, run.notes, cw.select(run, "ac-random").step)
        for key, run in load_runs(path).items()
    }


def _poison(
    draw: Callable[[Any], Any], record: Record, names: list[str], values: Any = POISON
) -> None:
    for name in names:
        value = draw(values)
        if value is GONE:
            record.pop(name, None)
        else:
            record[name] = value


def _tables(rows: list[Record]) -> Iterator[Callable[[], Any]]:
    """The readings of a table, each as a function."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        frame = pd.DataFrame(rows)
        yield lambda: _facts(write_lines(folder / "run.jsonl", rows))
        yield lambda: (frame.to_csv(folder / "run.csv", index=False), _facts(folder / "run.csv"))[1]
        frame.to_parquet(folder / "run.parquet")
        yield lambda: _facts(folder / "run.parquet")
        if "held_out" not in frame:
            yield lambda: cw.Trajectory.from_frame(frame).digest
            yield lambda: cw.Trajectory.from_frame(frame.set_index(frame.columns[0])).digest


def _marked(draw: Callable[[Any], Any], column: str, ours: Any, theirs: Any) -> list[Record]:
    """Rows of which those of one domain are marked as of test, and poisoned."""
    rows = []
    for row in _without_targets():
        del row["role"]
        is_test = row["domain"] == "photo"
        poison = {"accuracy": draw(st.floats(0, 1))} if is_test else {}
        rows.append({column: theirs if is_test else ours, **row, **poison})
    return rows


def _is_refused(rows: list[Record], said: str) -> None:
    for read in _tables(rows):
        with refused(f"held-out: {said}"):
            read()


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_cell_of_any_column_that_says_test_is_refused(data: st.DataObject) -> None:
    column = data.draw(st.sampled_from(COLUMNS) | st.text("abXY_.-", max_size=4))
    if column in OWN_COLUMNS:
        return
    word = data.draw(st.sampled_from(WORDS))
    word = data.draw(st.sampled_from([word, word.upper(), word.title()]))
    nested = data.draw(st.sampled_from(NESTED))
    beside: Record = data.draw(st.sampled_from([{}, {"role": "source"}, {"held_out": "sketch"}]))
    rows = _marked(data.draw, column, nested("val"), nested(word))
    _is_refused([{**row, **beside} for row in rows], word[0])


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_code_that_tells_test_rows_apart_is_refused(data: st.DataObject) -> None:
    column, ours, theirs = data.draw(st.sampled_from(CODED))
    column = data.draw(st.sampled_from([column, column.title(), column.upper()]))
    _is_refused(_marked(data.draw, column, ours, theirs), column)


def test_a_cell_may_be_called_validation(tmp_path: Path) -> None:
    rows = [{"dataset": "test-suite-A", **row} for row in _without_targets()]
    path = write_csv(tmp_path / "run.csv", rows)
    with refused("held-out: --source test-suite-A"):
        cw.load(path)
    assert cw.load(path, sources="test-suite-A").domains == ("art", "photo")
    with refused("unknown"):
        cw.load(path, sources=["test-suite-A", "sketch"])


def test_columns_without_a_name_or_with_one_name_are_looked_at_too(tmp_path: Path) -> None:
    for header, cells in ((",split,split", "0,val,test"), (",,x", "0,test,y")):
        path = tmp_path / "run.csv"
        path.write_text(f"step,accuracy,domain{header}\n1,0.5,art{cells[1:]}\n")
        with refused("held-out"):
            cw.load(path)


@pytest.mark.parametrize("log", [domainbed, extended, lambda step: swad(step, 1)])
def test_a_key_that_stands_twice_is_refused(tmp_path: Path, log: Callable[[int], Record]) -> None:
    for name in ("args", "step"):
        lines = [json.dumps(log(step)) for step in STEPS]
        lines[1] = lines[1][:-1] + f', "{name}": {json.dumps(log(0)[name])}}}'
        path = tmp_path / "results.jsonl"
        path.write_text("\n".join(lines))
        with refused(f"ambiguous: results.jsonl line 2 … {name!r}"):
            cw.load(path)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_domainbed_and_swad(folder: Path, data: st.DataObject) -> None:
    for log in ([domainbed(step) for step in STEPS], swad_file()):
        clean = _facts(write_lines(folder / "log.jsonl", log))
        for record in log:
            names = [f"env{TARGET}_in_acc", f"env{TARGET}_out_acc"]
            for target in record["args"].get("real_test_envs", ()):
                names = ["test_in", "test_out", f"env{target}_in", f"env{target}_out"]
            _poison(data.draw, record, names)
        assert _facts(write_lines(folder / "log.jsonl", log)) == clean


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_extended(folder: Path, data: st.DataObject) -> None:
    clean = _facts(write_lines(folder / "log.jsonl", map(extended, STEPS)))
    records = [extended(step) for step in STEPS]
    for record in records:
        _poison(data.draw, record, [f"env{TARGET}_in_acc", f"env{TARGET}_out_acc"])
        for field in ("per_domain_calibration", "per_domain_class_calibration"):
            sources = [entry for entry in record[field] if entry["role"] == "source"]
            targets = [entry for entry in record[field] if entry["role"] == "target"]
            for entry in targets:
                # One of the two that make it a target stays.
                kept = data.draw(st.sampled_from(["domain_index", "role"]))
                others = [name for name in entry if name != kept]
                _poison(data.draw, entry, data.draw(st.lists(st.sampled_from(others))))
            if data.draw(st.booleans()):
                targets = data.draw(st.lists(st.sampled_from(["junk", None, 3, []]), max_size=2))
            record[field] = data.draw(st.permutations(sources + targets))
    assert _facts(write_lines(folder / "log.jsonl", records)) == clean


def _without_targets() -> list[Record]:
    return [row for row in table_rows() if row["role"] == "source"]


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_table_whose_runs_name_their_targets(folder: Path, data: st.DataObject) -> None:
    def rows(poisoned: bool) -> list[Record]:
        made = []
        for held_out in ("sketch", "art"):
            for row in table_rows():
                row = {"held_out": held_out, "trial_seed": 3} | row
                del row["role"]
                if row["domain"] == held_out and poisoned:
                    names = [name for name in row if name not in ("held_out", "domain")]
                    _poison(data.draw, row, names, CELLS)
                if row["domain"] != held_out or poisoned:
                    made.append(row)
        return made

    clean = _facts(write_csv(folder / "runs.csv", rows(poisoned=False)))
    assert _facts(write_csv(folder / "runs.csv", rows(poisoned=True))) == clean


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_predictions(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = predictions_folder(Path(name) / "run")
        clean = _facts(folder)
        for target in folder.glob("step-*/target"):
            file = target / "sketch.npz"
            file.write_bytes(data.draw(st.binary(max_size=40)))
            if data.draw(st.booleans()):
                file.unlink()
                target.rmdir()
        assert _facts(folder) == clean


def _answer(path: Path, *options: str) -> str:
    """What ``select --json`` prints, to the byte."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), pytest.raises(SystemExit) as stop:
        main(["select", str(path), *options, "--json"])
    assert stop.value.code == 0
    return printed.getvalue()


# How a target is told from a source: a list, joined names, a role, the caller's word, its name.
FORMS: dict[str, tuple[Record, str, tuple[str, ...]]] = {
    "role": ({"role": "target"}, "sketch", ()),
    "list": ({"held_out": ["sketch"]}, "sketch", ()),
    "list as text": ({"held_out": "['sketch', 'quick draw']"}, "sketch", ()),
    "joined": ({"held_out": "sketch+clipart"}, "sketch", ()),
    "caller": ({}, "sketch", ("--held-out", "sketch")),
    "test": ({}, "test", ()),
    "OOD": ({}, "OOD", ()),
    "photo_test": ({}, "photo_test", ()),
    "held-out 2": ({}, "held-out 2", ()),
    "mapped": ({"test_domain": "sketch"}, "sketch", ("--column", "held_out=test_domain")),
}


def _target_rows(
    form: str, draw: Callable[[Any], Any] | None, values: Any = POISON
) -> list[Record]:
    """Rows of a table in which one domain is held out, its cells poisoned if there is a draw."""
    extra, target, _ = FORMS[form]
    rows = []
    for row in table_rows():
        del row["role"]
        row = {"test_accuracy": 0.5, **extra, **row}
        if row["domain"] == "sketch":
            row["domain"] = target
            if draw is not None:
                names = [name for name in row if name not in ("domain", *extra)]
                _poison(draw, row, names, values)
        elif form == "role":
            row["role"] = "source"
        elif draw is not None:
            row["test_accuracy"] = draw(st.sampled_from([0.1, "poison", float("nan"), None]))
        rows.append(row)
    return rows


def _write_csv(path: Path, rows: list[Record]) -> Path:
    pd.DataFrame(rows).astype(str).to_csv(path, index=False)
    return path


def _write_parquet(path: Path, rows: list[Record]) -> Path:
    # A text in one row makes its whole column text.
    pd.DataFrame(rows).astype(str).to_parquet(path)
    return path


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_no_byte_of_the_answer_depends_on_held_out_rows(
    folder: Path, form: str, data: st.DataObject
) -> None:
    options = FORMS[form][2]
    for suffix, write, values in (
        ("jsonl", write_lines, POISON),
        ("csv", _write_csv, CELLS),
        ("parquet", _write_parquet, CELLS),
    ):
        path = folder / f"answer.{suffix}"
        clean = _answer(write(path, _target_rows(form, None)), *options)
        assert _answer(write(path, _target_rows(form, data.draw, values)), *options) == clean
        if form == "role":
            sources = [row for row in _target_rows(form, None) if row["role"] == "source"]
            assert _answer(write(path, sources), *options) == clean


@pytest.mark.parametrize("name", ["test", "ood", "photo_test", "Held-Out"])
def test_no_byte_of_the_answer_depends_on_held_out_files(tmp_path: Path, name: str) -> None:
    folder = predictions_folder(tmp_path / "run")
    files = [step / f"{name}.npz" for step in folder.glob("step-*")]
    answers = set()
    for content in (b"", b"poison", *map(Path.read_bytes, folder.glob("*/art.npz"))):
        for file in files:
            file.write_bytes(content)
        answers.add(_answer(folder))
    for file, other in zip(files, folder.glob("*/photo.npz"), strict=True):
        file.unlink()
        file.symlink_to(other)
    answers.add(_answer(folder))
    assert len(answers) == 1


def test_no_byte_of_the_answer_depends_on_the_held_out_side_of_own_runs(tmp_path: Path) -> None:
    cohort = write_cohort(tmp_path / "tiny", tiny_runs())
    clean = _answer(cohort)
    journals = sorted(cohort.glob("runs/*/heldout/*.jsonl"))
    assert journals
    for content in (b"", b"poison\n", b'{"step": "NaN"}\n'):
        for journal in journals:
            journal.write_bytes(content)
        assert _answer(cohort) == clean
    for journal in journals:
        journal.unlink()
    assert _answer(cohort) == clean


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    cohort = write_cohort(tmp_path / "tiny", tiny_runs())
    return sorted(cohort.glob("runs/*/heldout/*.jsonl"))[0]


def _refuses(path: Path, out: Path) -> None:
    with refused("held-out: held-out"):
        cw.load(path)
    with refused("held-out: held-out"):
        cw.load_runs(path)
    for words in (
        ["select", path],
        ["select", path, "--copy-to", out],
        ["study", "report", path, "-o", out],
    ):
        with pytest.raises(SystemExit) as stop:
            main([str(word) for word in words])
        assert stop.value.code == 2
    assert not out.exists()


def test_a_held_out_journal_is_no_validation(journal: Path, tmp_path: Path) -> None:
    link = tmp_path / "validation.jsonl"
    link.symlink_to(journal)
    for path in (journal, link, journal.parent):
        _refuses(path, tmp_path / "out")


def test_whatever_lies_below_a_runs_held_out_folder_is_refused(
    journal: Path, tmp_path: Path
) -> None:
    plain = write_csv(tmp_path / "run.csv", _without_targets())
    cw.load_runs(plain)
    inside = journal.with_suffix(".csv")
    inside.write_bytes(plain.read_bytes())
    _refuses(inside, tmp_path / "out")


def test_a_copied_held_out_journal_is_known_by_its_content(journal: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copied.jsonl"
    copied.write_bytes(journal.read_bytes())
    _refuses(copied, tmp_path / "out")
    rows = pd.read_json(copied, lines=True)
    rows.to_csv(tmp_path / "copied.csv", index=False)
    _refuses(tmp_path / "copied.csv", tmp_path / "out")
    rows.drop(columns="split").to_csv(tmp_path / "own.csv", index=False)
    assert len(cw.load(tmp_path / "own.csv")) == len(rows)


def test_a_folder_of_ones_own_may_be_called_heldout(tmp_path: Path) -> None:
    (tmp_path / "heldout").mkdir()
    assert cw.load_runs(write_csv(tmp_path / "heldout" / "run.csv", _without_targets()))
