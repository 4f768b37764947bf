"""A disk that fails at any operation is one error with a code, and nothing recorded is lost."""

from __future__ import annotations

import itertools
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import checkwise as cw
from checkwise.integrations.callbacks import Options
from checkwise.integrations.folder import CheckpointFolder
from checkwise.selection import Choice
from tests.faulty_disk import failing
from tests.integrations.selections import predictions

KEEPING: dict[str, Any] = {"predictions": True, "calibrator": "ts-soften"}
SAID = predictions()


def _name(path: Path, version: int | None) -> str:
    return str(path if version is None else path.with_stem(f"{path.stem}-{version}"))


def train(folder: Path, *, resumed: bool = False) -> tuple[int, ...]:
    """What a callback does with each checkpoint; the steps in the end."""
    checkpoints = CheckpointFolder(Options(Choice("ac-nc"), predictions=True))
    try:
        newest = checkpoints.newest_file(folder)
        plan = checkpoints.open(folder, None if newest is None else str(newest))
        checkpoints.begin(told=resumed, planned=0, size=0)
        for step, sets in SAID.items():
            if plan.number is not None and step <= plan.number:
                continue
            outcome = checkpoints.weigh(step, sets)
            planned = checkpoints.plan(outcome, partial(_name, folder / f"{step}.ckpt"))
            with checkpoints.saving(planned):
                Path(planned.part).write_text("weights")
            checkpoints.commit(outcome, planned)
            checkpoints.prune()
        selection = checkpoints.selection
        assert selection is not None
        return (selection.step, *selection.trajectory.steps.tolist())
    finally:
        checkpoints.close()


@pytest.mark.parametrize("operation", ["fsync", "rename", "replace", "mkdir", "symlink", "pwrite"])
def test_whichever_operation_fails_training_goes_on_afterwards(
    operation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str | None] = [""]
    whole, number = train(tmp_path / "whole"), 0
    while refused[-1] is not None:
        number += 1
        folder = tmp_path / f"{number}"
        with monkeypatch.context() as full:
            full.setattr(os, operation, failing(getattr(os, operation), itertools.count(1), number))
            refused.append(_refusal(folder))
        if operation == "symlink" and number > 1:  # the link of the checkpoint before stays
            assert (folder / "last.ckpt").exists()
        assert train(folder, resumed=True) == whole
    assert set(refused[1:-1]) == {"system"}


def _refusal(folder: Path) -> str | None:
    try:
        train(folder)
    except cw.InputError as error:
        return error.code if str(folder) in str(error) else "another folder"
    return None


def test_a_record_that_could_not_be_written_is_added_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cw.LiveSelector(journal=tmp_path / "checkwise.jsonl", **KEEPING) as live:
        for step, sets in SAID.items():
            with monkeypatch.context() as full:
                full.setattr(os, "fsync", failing(os.fsync, itertools.count(1), 1 + step % 3))
                with pytest.raises(cw.InputError) as refused:
                    live.add(step, sets)
            assert refused.value.code == "system"
            live.add(step, sets)
        chosen = live.choice
    assert cw.LiveSelector.from_journal(tmp_path / "checkwise.jsonl").choice == chosen
    assert len(list((tmp_path / "predictions").iterdir())) == len(SAID)


@pytest.mark.parametrize("error", [RuntimeError, OSError])
def test_a_writer_that_quotes_the_system_is_understood(
    error: type[Exception], tmp_path: Path
) -> None:
    folder = CheckpointFolder(Options(Choice("ac-nc")))
    folder.open(tmp_path)
    step, sets = next(iter(SAID.items()))
    outcome = folder.weigh(step, sets)
    plan = folder.plan(outcome, lambda _: str(tmp_path / "a.weights.h5"))
    with pytest.raises(cw.InputError, match="free some space") as refused, folder.saving(plan):
        raise error("can't close file (errno = 28,\nerror message = 'No space left on device')")
    assert refused.value.code == "system"
    folder.close()
    assert [path.name for path in tmp_path.iterdir()] == ["checkwise.jsonl"]
