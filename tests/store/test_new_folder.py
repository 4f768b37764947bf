"""A folder appears, or is replaced, as a whole: whatever fails, wherever the process is killed."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from checkwise.store import StoreError, new_folder
from checkwise.store import whole_folders as module
from tests.killing import die_at, in_child, was_killed
from tests.refusals import refused

OPERATIONS = ("mkdir", "fsync", "rename", "replace", "unlink", "rmdir", "close")


def fill(out: Path, content: str, *, replace: bool = True) -> None:
    with new_folder(out, replace=replace) as place:
        (place / "a").write_text(content)
        (place / "b").mkdir()
        (place / "b" / "c").write_text(content)


def held(out: Path) -> str | None:
    """What a folder that ``fill`` wrote holds; None where there is none."""
    if not out.exists():
        return None
    first, second = (out / "a").read_text(), (out / "b" / "c").read_text()
    assert first == second
    return first


def test_a_folder_that_cannot_be_replaced_in_one_step_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "model", "old")
    monkeypatch.setattr(module, "_swapped", lambda place, out: False)
    with refused("exists: model"):
        fill(tmp_path / "model", "new")
    assert held(tmp_path / "model") == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("more", [1, 1000])
@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("operation", ["replace", "fsync"])
def test_whichever_operations_fail_there_is_one_whole_folder_or_none(
    operation: str, replace: bool, more: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The n-th operation fails, alone or with those after it."""
    first, failed, before = 1, True, "old" if replace else None
    said = ""
    while failed:
        out = tmp_path / f"{first}" / "model"
        out.parent.mkdir()
        if replace:
            fill(out, "old")
        with monkeypatch.context() as faults:
            faults.setattr(os, operation, failing(getattr(os, operation), first, more))
            try:
                fill(out, "new", replace=replace)
                failed = False
            except StoreError as error:
                said = str(error)
        assert held(out) == ("new" if not failed or "power cut" in said else before)
        assert {file.name for file in out.parent.iterdir()} <= {"model"}
        first += 1
    assert held(out) == "new"
    assert first > (2 if operation == "fsync" or not replace else 1)


def failing(operation: Callable[..., Any], first: int, more: int) -> Callable[..., Any]:
    """The operation, of which ``more`` calls fail from the ``first`` on."""
    calls = [0]

    def call(*args: Any, **options: Any) -> Any:
        calls[0] += 1
        if first <= calls[0] < first + more:
            raise OSError(errno.EIO, "Input/output error")
        return operation(*args, **options)

    return call


def killed(work: Callable[[], object], number: int) -> bool:
    """Whether ``work`` in a process of its own was killed at its ``number``-th operation."""

    def until_killed() -> None:
        die_at(number, OPERATIONS)
        work()

    return was_killed(in_child(until_killed))


@pytest.mark.parametrize("other", ["model", "model.abcdefgh"])
def test_killed_at_every_operation_a_folder_is_old_or_new_and_others_stay(
    other: str, tmp_path: Path
) -> None:
    number, died = 1, True
    while died:
        folder = tmp_path / f"{number}"
        out, beside = folder / "model.v2", folder / other
        fill(out, "old")
        died = killed(partial(fill, out, "new"), number)
        assert held(out) in ("old", "new")
        fill(beside, "beside")
        with pytest.raises(ZeroDivisionError), new_folder(out, replace=True):
            raise ZeroDivisionError
        assert (held(out) in ("old", "new"), held(beside)) == (True, "beside")
        assert not [file for file in folder.iterdir() if file.name.startswith(".")]
        number += 1
    assert held(out) == "new"
    assert number > 10


@pytest.mark.parametrize("name", [".model.notes.building", ".model.abcdefgh.building"])
def test_a_folder_that_only_looks_like_a_leftover_stays(name: str, tmp_path: Path) -> None:
    mine = tmp_path / name
    mine.mkdir()
    (mine / "notes").write_text("mine")
    fill(tmp_path / "model", "new")
    assert (mine / "notes").read_text() == "mine"
