"""However a target is named, it stays out of the choice or the input is refused: every reader."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import checkwise as cw
from checkwise.errors import InputError
from checkwise.readers import load, load_runs
from checkwise.records import RunKey, Trajectory
from tests.readers.samples import (
    STEPS,
    Record,
    domainbed,
    extended,
    outputs,
    predictions_folder,
    swad_file,
    table_rows,
    write_csv,
    write_lines,
)
from tests.refusals import refused
from tests.study.cohorts import tiny_runs, write_cohort

Read = Callable[..., Trajectory]


def _rows(held_out: Any = None, target: str = "sketch") -> list[Record]:
    rows = []
    for row in table_rows():
        del row["role"], row["junk"]
        row["domain"] = target if row["domain"] == "sketch" else row["domain"]
        rows.append(row | ({} if held_out is None else {"held_out": held_out}))
    return rows


def _csv(folder: Path, rows: list[Record], **options: Any) -> Trajectory:
    pd.DataFrame(rows).to_csv(folder / "run.csv", index=False)
    return load(folder / "run.csv", **options)


def _jsonl(folder: Path, rows: list[Record], **options: Any) -> Trajectory:
    return load(write_lines(folder / "run.jsonl", rows), **options)


def _parquet(folder: Path, rows: list[Record], **options: Any) -> Trajectory:
    pd.DataFrame(rows).to_parquet(folder / "run.parquet")
    return load(folder / "run.parquet", **options)


def _frame(folder: Path, rows: list[Record], **options: Any) -> Trajectory:
    return Trajectory.from_frame(pd.DataFrame(rows), **options)


def _mapping(folder: Path, rows: list[Record], **options: Any) -> Trajectory:
    return Trajectory.from_frame({n: [row[n] for row in rows] for n in rows[0]}, **options)


TABLES = pytest.mark.parametrize("read", [_csv, _jsonl, _parquet, _frame, _mapping])

ONE = ["sketch", ["sketch"], "['sketch']", '["sketch"]', "('sketch',)"]
TWO = [
    ["sketch", "art"], "sketch+art", "sketch;art", "sketch; art", "sketch,art", "sketch, art",
    "sketch|art", "sketch/art", "sketch & art", "sketch art", '["sketch", "art"]',
    "['sketch', 'art']", ["sketch+art"],
]  # fmt: skip


def _failing(check: Callable[[Any], bool], cases: Iterable[Any]) -> list[str]:
    """The cases that a check is not true of, all of them; an error counts, and is shown."""
    failing = []
    for case in cases:
        try:
            reason = "" if check(case) else "not so"
        except Exception as error:
            reason = repr(error)
        failing += [f"{case!r}: {reason}"] if reason else []
    return failing


@TABLES
def test_a_held_out_cell_may_be_a_name_or_a_list(tmp_path: Path, read: Read) -> None:
    told = read(tmp_path, _rows(), held_out="sketch")

    def holds(cell: Any) -> bool:
        run = read(tmp_path, _rows(cell))
        is_silent = not any("sketch" in note for note in run.notes)
        return run.domains == ("art", "photo") and run.digest == told.digest and is_silent

    assert not _failing(holds, ONE)


@TABLES
def test_a_held_out_cell_may_name_several(tmp_path: Path, read: Read) -> None:
    assert not _failing(lambda cell: read(tmp_path, _rows(cell)).domains == ("photo",), TWO)


def test_lists_and_joined_names_are_one_run(tmp_path: Path) -> None:
    rows = _rows(["sketch", "art"])[:4] + _rows("sketch+art")[4:]
    (key,) = load_runs(write_lines(tmp_path / "run.jsonl", rows))
    assert key == RunKey("run", "unknown", ("sketch", "art"), 0, 0)


MIGHT_LEAVE_IT = [
        "Sketch", "SKETCH", ["Sketch"], "art+Sketch", "Sketch;art", "sk etch",
        "sketch;quickdraw", "sketch, Art", "['sketch' 'art']", "sketch and art", "[sketch]",
        "{'sketch'}", "sketch.", "sketch_", "sketch\u200b", "\ufeffsketch", "sketch-art",
        "sketch:art", "sketch other", "domain sketch", "<sketch>", "“sketch”",
        ["sketch;quickdraw"], True, False, 2, 1.0, "yes", [2],
]  # fmt: skip


@TABLES
def test_a_held_out_cell_that_might_leave_its_target_a_source_is_refused(
    tmp_path: Path, read: Read
) -> None:
    def is_refused(cell: Any) -> bool:
        with pytest.raises(InputError) as refusal:
            read(tmp_path, _rows(cell))
        reasons = ("held-out domain as it is written", "in the column `held_")
        return any(reason in str(refusal.value) for reason in reasons)

    assert not _failing(is_refused, MIGHT_LEAVE_IT)


@pytest.mark.parametrize("read", [_jsonl, _parquet, _frame, _mapping])
def test_space_around_a_held_out_name_is_refused(tmp_path: Path, read: Read) -> None:
    for cell in (" sketch", "sketch ", ["sketch "]):
        with refused("ambiguous: 'sketch'"):
            read(tmp_path, _rows(cell))


@TABLES
def test_a_target_whose_rows_were_removed_may_be_named_and_is_said(
    tmp_path: Path, read: Read
) -> None:
    rows = [row for row in _rows("sketch") if row["domain"] != "sketch"]
    run = read(tmp_path, rows)
    assert run.domains == ("art", "photo")
    assert "held out, and without rows in the table: sketch" in run.notes
    for cell in ("Art", "art "):
        with refused("ambiguous: 'art'"):
            _jsonl(tmp_path, [row | {"held_out": cell} for row in rows])


def test_numbered_domains_may_be_held_out_by_number(tmp_path: Path) -> None:
    numbers = {"art": 0, "photo": 1, "sketch": 2}
    rows = [row | {"domain": numbers[row["domain"]], "held_out": 2} for row in _rows()]
    assert _jsonl(tmp_path, rows).domains == ("0", "1")
    with refused("ambiguous: '2.0' … '2'"):
        _jsonl(tmp_path, [row | {"held_out": 2.0} for row in rows])


NAMES_A_TARGET = ["Held_Out", "heldout", "held-out", "Role", "test_env", "target_domain",
                  "held out domains"]  # fmt: skip


@TABLES
def test_a_column_that_seems_to_name_the_target_is_not_passed_over(
    tmp_path: Path, read: Read
) -> None:
    def is_asked_about(column: str) -> bool:
        rows = [row | {column: "sketch"} for row in _rows()]
        with pytest.raises(InputError, match=rf"--column (held_out|role)={column}"):
            read(tmp_path, rows)
        ways: list[Record] = [{"columns": {"held_out": column}}] if column != "Role" else []
        ways += [{"held_out": "sketch"}] if column.startswith("t") else []
        return all(read(tmp_path, rows, **way).domains == ("art", "photo") for way in ways)

    assert not _failing(is_asked_about, NAMES_A_TARGET)


@TABLES
def test_a_set_named_like_a_target_is_held_out_with_a_note(tmp_path: Path, read: Read) -> None:
    def is_held_out(name: str) -> bool:
        run = read(tmp_path, _rows(target=name))
        assert run.domains == ("art", "photo")
        assert any(f"because of the name: {name}" in note for note in run.notes)
        kept = read(tmp_path, _rows(target=name), sources=name)
        assert set(kept.domains) == {"art", "photo", name}
        assert not any("because of the name" in note for note in kept.notes)
        said = read(tmp_path, [row | {"role": "source"} for row in _rows(target=name)])
        return said.digest == kept.digest

    names = ("test", "Testing", "ood", "photo_test", "ood-photo", "held out")
    assert not _failing(is_held_out, names)


@TABLES
def test_the_only_validation_set_is_asked_about(tmp_path: Path, read: Read) -> None:
    rows = [row for row in _rows(target="test") if row["domain"] == "test"]
    with refused("held-out: add --source test"):
        read(tmp_path, rows)
    assert read(tmp_path, rows, sources=["test"]).domains == ("test",)


@TABLES
def test_a_target_cannot_be_called_a_source(tmp_path: Path, read: Read) -> None:
    roles = [row | {"role": "target" if row["domain"] == "sketch" else ""} for row in _rows()]
    for rows in (roles, _rows("sketch")):
        with refused("unknown: --source"):
            read(tmp_path, rows, sources="sketch")


@TABLES
def test_a_name_from_the_caller_has_to_match(tmp_path: Path, read: Read) -> None:
    def is_refused(name: str) -> bool:
        with pytest.raises(InputError, match="held-out domain"):
            read(tmp_path, _rows(), held_out=name)
        return True

    names = ("Sketch", "sketch ", "sketches", "sketch+art", "sketch,art", "")
    assert not _failing(is_refused, names)


def test_a_role_may_use_any_word_for_a_target(tmp_path: Path) -> None:
    for word in ("target", "held-out", "test", "OOD"):
        rows = [row | {"role": word if row["domain"] == "sketch" else "source"} for row in _rows()]
        assert _jsonl(tmp_path, rows).domains == ("art", "photo")


def _predictions(folder: Path, *names: str, step_names: tuple[int, ...] = STEPS) -> Path:
    for step in step_names:
        (folder / f"step-{step:06d}").mkdir(parents=True)
        for seed, name in enumerate(names):
            np.savez(folder / f"step-{step:06d}" / f"{name}.npz", **outputs(step, seed))
    return folder


@pytest.mark.parametrize("name", ["test", "testing", "ood", "target", "photo_test", "held-out"])
def test_predictions_named_like_a_target_stay_closed(tmp_path: Path, name: str) -> None:
    folder = _predictions(tmp_path, "art", "photo", name)
    run = load(folder)
    assert run.domains == ("art", "photo")
    assert any(f"because of the name: {name}" in note for note in run.notes)
    assert set(load(folder, sources=name).domains) == {"art", "photo", name}
    for file in folder.glob(f"*/{name}.npz"):
        file.write_bytes(b"poison")
    assert load(folder).digest == run.digest


def test_predictions_of_nothing_but_a_target_are_asked_about(tmp_path: Path) -> None:
    folder = _predictions(tmp_path, "test")
    with refused("held-out: add --source test"):
        load(folder)
    assert load(folder, sources="test").domains == ("test",)


@pytest.mark.parametrize("name", ["Art", " art", "arts", "target"])
def test_predictions_to_hold_out_have_to_be_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="held-out domain"):
        load(_predictions(tmp_path, "art", "photo"), held_out=name)


def test_predictions_in_a_folder_of_their_own_may_be_named(tmp_path: Path) -> None:
    folder = predictions_folder(tmp_path)
    for name in ("target", "sketch"):
        assert load(folder, held_out=name).digest == load(folder).digest


@pytest.mark.parametrize("name", ["test", "OOD_results", "test-metrics", "heldout log", "TestSet"])
@pytest.mark.parametrize("write", [write_csv, write_lines])
def test_a_table_called_after_a_target_is_asked_about(
    tmp_path: Path, name: str, write: Callable[..., Path]
) -> None:
    rows = [{"step": step, "accuracy": 0.5, "nll": 1 / step} for step in (1, 2)]
    path = write(tmp_path / f"{name}.{'csv' if write is write_csv else 'jsonl'}", rows)
    with refused(f"held-out: {path} … --source validation"):
        load(path)
    assert load(path, sources="validation").domains == ("validation",)
    write(path, [{**row, "domain": "photo"} for row in rows])
    assert load(path).domains == ("photo",)
    assert load(write(tmp_path / f"test_of_lr{path.suffix}", rows)).domains == ("validation",)


@pytest.mark.parametrize("name", ["test", "OOD", "held-out"])
def test_predictions_below_a_folder_named_like_a_target_are_left_out(
    tmp_path: Path, name: str
) -> None:
    _predictions(tmp_path / name, "art")
    if name != "held-out":  # which is not even entered
        with pytest.raises(
            InputError,
            match=f"in a folder called '{name}'.*name that folder itself and add --source",
        ):
            load_runs(tmp_path)
    assert load(tmp_path / name, sources="art").domains == ("art",)
    _predictions(tmp_path / "test_of_lr", "art")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert [key.dataset for key in load_runs(tmp_path)] == ["test_of_lr"]
    assert any(f"called '{name}'" in str(w.message) for w in said) == (name != "held-out")


@pytest.mark.parametrize("name", ["test", "target", "heldout", "Test-Set", "t\u0435st", "ood_val",
                                  "preds_test", "test-predictions", "LogitsOnTest"])  # fmt: skip
def test_a_folder_of_predictions_called_after_a_target_is_asked_about(
    tmp_path: Path, name: str
) -> None:
    folder = _predictions(tmp_path / name, "art", "photo")
    (tmp_path / "link").symlink_to(folder)
    for path, sources in ((folder, ()), (tmp_path / "link", ()), (folder, ["art"])):
        with pytest.raises(InputError) as error:
            load(path, sources=sources)
        assert error.value.code == "held-out"
        assert repr(name) in str(error.value)
        assert "--source" in str(error.value)
    assert load(folder, sources=["art", "photo"]).domains == ("art", "photo")
    assert load(folder, sources="art", held_out="photo").domains == ("art",)


def test_outputs_in_memory_follow_the_same_rule() -> None:
    def pair(step: int, seed: int) -> tuple[Any, Any]:
        saved = outputs(step, seed)
        return saved["logits"], saved["labels"]

    saved = {step: {"art": pair(step, 1), "test": pair(step, 2)} for step in STEPS}
    run = Trajectory.from_predictions(saved)
    assert run.domains == ("art",)
    assert any("because of the name: test" in note for note in run.notes)
    assert Trajectory.from_predictions(saved, sources="test").domains == ("art", "test")
    with refused("ambiguous: 'test'"):
        Trajectory.from_predictions(saved, held_out="Test")

    live = cw.LiveSelector("source-acc")
    live.add(0, saved[0])
    assert live.trajectory.domains == ("art",)
    with refused("held-out: add --source test"):
        cw.LiveSelector("source-acc").add(0, {"test": saved[0]["test"]})
    live = cw.LiveSelector("source-acc", sources="test")
    live.add(0, saved[0])
    assert live.trajectory.domains == ("art", "test")


def _without_targets_named(record: Record) -> Record:
    return record | {"args": {n: v for n, v in record["args"].items() if n != "test_envs"}}


def test_a_domainbed_log_has_to_know_the_targets_it_or_the_caller_names(tmp_path: Path) -> None:
    def log(records: list[Record]) -> Path:
        return write_lines(tmp_path / "results.jsonl", records)

    unnamed = log([_without_targets_named(domainbed(step)) for step in STEPS])
    assert load(unnamed, held_out="env2").domains == ("env0", "env1", "env3")
    for name in ("env4", "env9", "Env2", "env02"):
        with pytest.raises(InputError, match=r"held.out"):
            load(unnamed, held_out=name)
    args = domainbed(0)["args"]
    beyond = log([domainbed(step, args=args | {"test_envs": [7]}) for step in STEPS])
    with refused("format: env0 … env1 … env2 … env3 … 7 … 1"):
        load(beyond)
    removed = [
        {n: v for n, v in domainbed(step).items() if not n.startswith("env2")} for step in STEPS
    ]
    assert load(log(removed)).domains == ("env0", "env1", "env3")


@pytest.mark.parametrize("name", ["Art", "art ", "env7", "sketchy"])
def test_a_paper_log_has_to_know_the_names_to_hold_out(tmp_path: Path, name: str) -> None:
    path = write_lines(tmp_path / "results.jsonl", map(extended, STEPS))
    with pytest.raises(InputError, match="held-out domain"):
        load(path, held_out=name)


def test_a_swad_log_has_to_know_its_targets(tmp_path: Path) -> None:
    records = swad_file()
    path = write_lines(tmp_path / "results.jsonl", records)
    for name in ("Env0", "env7"):
        with pytest.raises(InputError, match="held-out domain"):
            load_runs(path, held_out=name)
    for record in records:
        record["args"] = record["args"] | {"real_test_envs": [7]}
    with refused("format: 7"):
        load_runs(write_lines(path, records))


def test_logs_that_name_their_targets_take_neither_columns_nor_other_sources(
    tmp_path: Path,
) -> None:
    own = sorted(write_cohort(tmp_path / "tiny", tiny_runs()).glob("runs/*"))[0]
    logs = {
        own: load(own).domains[0],
        write_lines(tmp_path / "a.jsonl", map(domainbed, STEPS)): "env0",
        write_lines(tmp_path / "b.jsonl", map(extended, STEPS)): "art",
        write_lines(tmp_path / "c.jsonl", swad_file()[: len(STEPS)]): "env1",
    }
    for path, source in logs.items():
        assert load(path, sources=source).digest == load(path).digest
        with refused("unknown: --source"):
            load(path, sources="quickdraw")
        with refused("unsupported: --column"):
            load(path, columns={"accuracy": "val_accuracy"})
    with refused("unsupported: --column"):
        load(predictions_folder(tmp_path / "p"), columns={"accuracy": "val_accuracy"})


def test_own_runs_refuse_a_name_that_they_were_not_trained_without(tmp_path: Path) -> None:
    own = sorted(write_cohort(tmp_path / "tiny", tiny_runs()).glob("runs/*"))[0]
    run = load(own)
    assert run.key is not None
    (target,) = run.key.held_out
    assert load(own, held_out=target).digest == run.digest
    for name in (target.upper(), f"{target} ", run.domains[0], "quickdraw"):
        with refused("unknown: --held-out"):
            load(own, held_out=name)


def test_one_name_cannot_be_both(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "run.csv", _rows())
    with refused("ambiguous: 'art'"):
        load(path, held_out="art", sources="art")


@pytest.mark.parametrize("name", ["run", "dataset", "algorithm", "path"])
@pytest.mark.parametrize("column", ["held_out", "role", "domain"])
def test_a_column_that_says_what_is_held_out_is_read_as_nothing_else(
    tmp_path: Path, name: str, column: str
) -> None:
    rows = [row | {"role": "source"} for row in _rows("sketch")]
    with pytest.raises(InputError, match=f"Expected the column {column!r} to say what is held"):
        _jsonl(tmp_path, rows, columns={name: column})


@pytest.mark.parametrize("empty", [None, ""])
@pytest.mark.parametrize("read", [_csv, _jsonl])
def test_a_held_out_column_with_gaps_is_refused(tmp_path: Path, read: Read, empty: Any) -> None:
    rows = [row | ({"held_out": empty} if row["step"] else {}) for row in _rows("sketch")]
    with refused("held-out: `held_out`"):
        read(tmp_path, rows)


@pytest.mark.parametrize("column", ["split", "set", "subset", "kind", "domain_type", "domain_role"])
@pytest.mark.parametrize("cell", ["test", "ood", "target"])
def test_a_column_whose_cells_mark_a_target_is_not_passed_over(
    tmp_path: Path, column: str, cell: str
) -> None:
    rows = [row | {column: cell if row["domain"] == "sketch" else "val"} for row in _rows()]
    with refused("held-out: `role`"):
        _jsonl(tmp_path, rows)
    assert _jsonl(tmp_path, rows, held_out="sketch").domains == ("art", "photo")


@pytest.mark.parametrize(
    "column", ["is_target", "is_ood", "ood", "unseen", "holdout", "target_name", "test_domain_idx"]
)
def test_a_column_named_for_targets_is_not_passed_over(tmp_path: Path, column: str) -> None:
    with pytest.raises(InputError, match=f"but .* has {column!r}"):
        _jsonl(tmp_path, [row | {column: 1} for row in _rows()])
    metrics = [row | {"test_accuracy": 0.5, "target_nll": 0.1} for row in _rows()]
    assert _jsonl(tmp_path, metrics).domains == ("art", "photo", "sketch")
