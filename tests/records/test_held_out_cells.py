"""Cells that are not read: which make a table or log ask whether its rows are validation."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from checkwise.errors import InputError
from checkwise.records import check_cells

# Column and cells; the caller is asked about each.
ASKED: list[tuple[str, list[Any]]] = [
    *((column, ["test", "test"]) for column in (
        "phase", "mode", "stage", "fold", "dataset", "loader", "x", "", "host", "notes", "run name",
    )),
    *(("x", [cell] * 2) for cell in (
        "TEST", "Test set 2", "test_split", "testloader", "val/ood", "held-out", "t\u0435st",
        "\u202etset", ["test"], ("val", ["test"]), {"name": "test"}, {"meta": {"split": ["Test"]}},
        "['test']", '{"split": "test"}', b"test", np.array(["test"]), "train+test",
        {"is_test": True},
    )),
    ("x", ["val", "test"]), ("x", [None, "test"]), ("x", [0.5, "test"]), ("x", ["", "test"]),
    ("x", ["photo_val", "photo_test"]), ("x", ["", "photo_test"]),
    ("x", ["a", {"b": "id test"}, {"b": "id val"}]), ("split", ["photo_test"] * 2),
    ("eval_dataset", ["test-suite-A"] * 2), ("is_test", [1, 1]),
    ("is_test", [False, True]), ("ood", ["yes", "no"]), ("test", ["True"]),
    *((column, [0, 1]) for column in ("is_test_row", "from_test", "test_split", "is_train")),
    ("is_val", [1, 0]), ("is_validation", ["yes", "no"]), ("split", ["val", "train"]),
    ("test_loader", [True, False]), ("on_ood_images", [None, True, False]),
    ("test_phase", ["no", "yes"]),
    ("evaluated_on_test", [np.bool_(True), np.bool_(False)]),
    ("x", [{"test_run": True}, {"test_run": False}]),
    *((column, [0, 1]) for column in (
        "in_test_set", "is_from_test_set", "is_test_sample", "test_mask", "istest", "for_training",
    )),
    *((column, [True, False]) for column in ("is_source", "source", "seen", "in_distribution")),
    ("is_source", [1, 0]), ("is_seen", ["yes", "no"]), ("validation", ["true", "false"]),
    *(("x", cells) for cells in (
        ['{"is_test": false}', '{"is_test": true}'], ["{'is_test': False}", "{'is_test': True}"],
        ['{"lr": 1, "is_test":0}', '{"lr": 1, "is_test":1}'], ["test: no", "test: yes"],
        ["a.is_test=False", "a.is_test=True"], ['{"split":"val"}', '{"split":"train"}'],
        ["val", "{'split' : 'predict'}", '{"split": "val"}'],
        ["a", r'{"s": "t\u00e9st"}'], [r'"\u0074est"'], [r'"\ud835\udc2dest"'],
    )),
    ("x", ["val", {"a": [{"b": "id_test"}]}]), ("x", [{"a": 1}, {"a": 1, "b": "id_test"}]),
    ("x", [["a"], [{"b": "id_test"}]]), ("x", [None, {"is_test": 1}]),
    ("phase", ["val", "predict"]), ("split", ["val", "final"]),
    *(("split", cells) for cells in (
        [0, 1], ["0", "1"], [0.0, 1.0, None], [0, 1, 2], [True, False], ["va", "te"], ["te", "te"],
        ["dev", "eval"], ["tr", "va"], ["photo_va", "photo_te"], ["t e s t"] * 2,
    )),
    *((column, [0, 1]) for column in ("seen", "unseen", "subset", "eval_set", "source", "m/split")),
    ("in_test_set", [None, 1]), ("on_ood_images", ["1", ""]), ("seen", ["1", ""]),
    ("seen", [1, 0, None]), ("unseen", ["0", "1"]), ("x", ["va", "te"]), ("x", ["T E S T", "a"]),
    ("x", [{"split": 0}, {"split": 1}]), ("x", ['{"split": 0}', '{"split": 1}']),
]  # fmt: skip
LEFT_ALONE: list[tuple[str, list[Any]]] = [
    ("host", ["test-machine"] * 2), ("run_name", ["test_run_3"] * 2),
    ("notes", ["a test of lr"] * 2), ("checkpoint", ["/runs/test/1.pt", "/runs/test/2.pt"]),
    ("x", ["latest", "contest"]), ("config", ["--test-batch 3 --lr 1e-3"] * 2),
    ("x", ["val", "train"]), ("x", [1e-5, "1e-5", None]), ("x", []), ("x", [[], {}]),
    ("test_loss", [0.5, 1.0]), ("test_env", [1, 1]), ("is_test", [0, False]),
    ("is_val", [1, 1]), ("val_split", [0.2, 0.2]), ("is_best", [0, 1]), ("kind", ["a", "b"]),
    ("x", [object(), float("nan")]), ("metrics", [{"test": 0.5}, {"test": 0.6}]),
    ("do_test", [True, True]), ("test_after_fit", ["true", "true"]), ("test_fold", [0, 1]),
    ("x", ["id=0 lr: 1", "id=1 lr: 2"]), ("x", ["host:80/a", "C:/b"]), ("row_id", [0, 1]),
    ("rows_seen", [0, 1]), ("id", ["0", "1"]), ("source", ["a", "b"]), ("dataset", ["a", "b"]),
    ("split", ["val_a", "val_b"]), ("x", ["in_distribution: 0.5", "seen: 100"]),
    ("x", ["train_split=train test_split=test lr=1", "lr=2 train_split=train, test_split=test"]),
    ("x", [{"a": {"b": "test-machine"}}] * 2), ("x", [[{"b": "test-machine"}, {"b": "test-lab"}]]),
    ("fast", [True, False]), ("test_nll", [None, None]), ("test_accuracy", [None, True]),
    ("split", [0, 1, 2, 3]), ("split", [0, 0]), ("split", [0.8, 0.8]), ("stage", [*range(30)]),
    ("fold", [0, 1]), ("seen", [100, 200]), ("tokens_seen", [0, 1]), ("x", ["ta", "te", "hi"]),
]  # fmt: skip


def _refusal(column: str, cells: list[Any], **options: Any) -> str:
    """The kind of error, and whether it names column and file; "" where there is none."""
    try:
        check_cells([(column, cells)], "run.csv", **options)
    except InputError as error:
        named = [name for name in (column, "run.csv") if name not in str(error)]
        return f"{error.code} without {named}" if named else error.code
    return ""


def test_cells_that_call_their_rows_held_out_are_asked_about() -> None:
    assert [case for case in ASKED if _refusal(*case) != "held-out"] == []


def test_cells_that_tell_no_rows_apart_are_left_alone() -> None:
    assert [case for case in LEFT_ALONE if _refusal(*case)] == []


def test_the_caller_may_call_a_cell_validation() -> None:
    cells = ["test-suite-A", "test-suite-B", "val"]
    with pytest.raises(InputError) as error:
        check_cells([("dataset", cells)], "run.csv", sources=["test-suite-A"])
    assert "--source test-suite-B" in str(error.value)
    told = check_cells([("dataset", cells)], "run.csv", sources=[*cells[:2], "photo"])
    assert told == set(cells[:2])
    codes: list[list[Any]] = [[0, 1], ["dev", "eval"]]
    for both in codes:
        told = {str(code) for code in both}
        assert check_cells([("split", both)], "run.csv", sources=told) == told
        assert _refusal("split", both, sources=[min(told)]) == "held-out"  # the other rows stay


def test_a_log_keeps_the_rows_of_two_sets_apart_by_nothing_else() -> None:
    assert _refusal("phase", ["train", "val"], one_set=True) == "held-out"
    assert not _refusal("phase", ["val", "", None, "nan", "None"], one_set=True)


def test_a_run_may_be_called_after_a_trial_and_not_after_a_set() -> None:
    assert not _refusal("run", ["test_lr", "base"], labels=["run"])
    assert _refusal("run", ["test", "base"], labels=["run"]) == "held-out"


def test_long_cells_and_many_columns_take_linear_time() -> None:
    begin = time.monotonic()
    signs = (
        "A",
        "A=",
        "a:",
        "a =",
        "\\u0074",
        "t",
        "test x ",
        "te\u0301",
        "[",
        "_",
        "A.",
        "o.",
        "a ",
    )
    for sign in signs:
        check_cells([("notes", [sign * 50_000] * 2)], "run.csv")
    check_cells([(f"c{k}", ["a", "b"]) for k in range(10_000)], "run.csv")
    assert time.monotonic() - begin < 15  # the square of 50,000 signs takes minutes
