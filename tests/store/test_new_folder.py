"""A folder is replaced as a whole, also where two names cannot be swapped in one step."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from checkwise.errors import InputError
from checkwise.store import new_folder as module
from checkwise.store.new_folder import new_folder


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

    if (child := os.fork()) == 0:
        monkeypatch.setattr(module, "_exchange", die)
        with new_folder(model, replace=True):
            pass
    os.waitpid(child, 0)
    assert not model.exists()
    if not replace:
        with pytest.raises(InputError, match="is not empty"), new_folder(model):
            pass
        assert (model / "old").read_text() == "1"
        return
    with pytest.raises(ZeroDivisionError), new_folder(model, replace=True):
        raise ZeroDivisionError
    assert (model / "old").read_text() == "1"
    assert [file.name for file in model.parent.iterdir()] == ["model"]
