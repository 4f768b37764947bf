"""A folder is replaced as a whole, also where two names cannot be swapped in one step."""

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
from tests.killing import die_at, in_child
from tests.refusals import refused


@pytest.fixture(autouse=True)
def in_two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_swapped", lambda place, out: False)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    out = tmp_path / "model"
    out.mkdir()
    (out / "old").write_text("1")
    return out


def test_a_folder_is_replaced_in_two_steps(model: Path) -> None:
    with new_folder(model, replace=True) as place:
        (place / "new").write_text("2")
    assert [file.name for file in model.iterdir()] == ["new"]
    assert [file.name for file in model.parent.iterdir()] == ["model"]


def test_the_old_folder_comes_back_where_the_second_step_fails(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    renamed = Path.rename

    def rename(self: Path, target: Path) -> Path:
        if "building" in str(self.parent) and self.name == "model":
            raise KeyboardInterrupt
        return renamed(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(KeyboardInterrupt), new_folder(model, replace=True):
        pass
    assert (model / "old").read_text() == "1"


@pytest.mark.parametrize("replace", [True, False])
def test_an_attempt_that_was_killed_between_the_steps_lost_nothing(
    model: Path, monkeypatch: pytest.MonkeyPatch, replace: bool
) -> None:
    def die(place: Path, out: Path) -> None:
        out.rename(module._aside(place))
        os._exit(9)

    def attempt() -> None:
        monkeypatch.setattr(module, "_exchange", die)
        with new_folder(model, replace=True):
            pass

    _, status = os.waitpid(in_child(attempt), 0)
    assert os.waitstatus_to_exitcode(status) == 9
    assert not model.exists()
    if not replace:
        with refused("exists"), new_folder(model):
            pass
        assert (model / "old").read_text() == "1"
        return
    with pytest.raises(ZeroDivisionError), new_folder(model, replace=True):
        raise ZeroDivisionError
    assert (model / "old").read_text() == "1"
    assert [file.name for file in model.parent.iterdir()] == ["model"]


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


@pytest.mark.parametrize("more", [1, 2, 1000])
@pytest.mark.parametrize("operation", ["rename", "fsync"])
def test_whichever_operations_fail_the_old_folder_is_where_the_message_says(
    operation: str, more: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The n-th operation fails, alone or with those after it."""
    first, failed = 1, True
    while failed:
        out = tmp_path / f"{first}" / "model"
        fill(out, "old")
        with monkeypatch.context() as faults:
            faults.setattr(os, operation, failing(getattr(os, operation), first, more))
            try:
                fill(out, "new")
                failed = False
            except StoreError as error:
                said = str(error)
        if failed and held(out) != "old":
            (aside,) = out.parent.glob("*/*.replaced") if held(out) is None else [out]
            assert str(aside) in said
            assert held(aside) == ("old" if aside != out else "new")
        with pytest.raises(ZeroDivisionError), new_folder(out, replace=True):
            raise ZeroDivisionError
        assert held(out) in (("old", "new") if operation == "fsync" else ("old",)) or not failed
        assert [file.name for file in out.parent.iterdir()] == ["model"]
        first += 1
    assert first > 2


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
    if (child := os.fork()) == 0:
        try:
            die_at(number, OPERATIONS)
            work()
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


@pytest.mark.parametrize("other", ["model", "model.abcdefgh", "model.v2.replaced"])
def test_killed_at_every_operation_no_other_attempt_takes_the_old_folder(
    other: str, tmp_path: Path
) -> None:
    number = 1
    while True:
        folder = tmp_path / f"{number}"
        out = folder / "model.v2"
        fill(out, "old")
        died = killed(partial(fill, out, "new"), number)
        beside = folder / other
        fill(beside, "beside")
        with pytest.raises(ZeroDivisionError), new_folder(out, replace=True):
            raise ZeroDivisionError
        assert (held(out), held(beside)) in [("old", "beside"), ("new", "beside")]
        assert not [file for file in folder.iterdir() if file.name.startswith(".")]
        number += 1
        if not died:
            break
    assert number > 10


@pytest.mark.parametrize("name", [".model.notes.building", ".model.abcdefgh.building"])
def test_a_folder_that_only_looks_like_a_leftover_stays(name: str, model: Path) -> None:
    mine = model.parent / name
    mine.mkdir()
    (mine / "notes").write_text("mine")
    fill(model, "new")
    assert (mine / "notes").read_text() == "mine"
