"""A journal holds whole lines; a torn end is passed over, a broken middle refused."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from checkwise.store import read_journal
from checkwise.study.folder import Journal
from tests.refusals import refused


def test_lines_come_back_as_they_were_written(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"step": 0, "x": 0.1 + 0.2, "domain": "Zürich"},
        {"step": 1, "x": None},
    ]
    with Journal(tmp_path / "j.jsonl") as journal:
        for line in lines:
            journal.append(line)
        assert journal.length == (tmp_path / "j.jsonl").stat().st_size
    assert read_journal(tmp_path / "j.jsonl") == lines


def test_opening_at_a_length_cuts_off_what_lies_behind_it(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    with Journal(path) as journal:
        journal.append({"step": 0})
        length = journal.length
        journal.append({"step": 1})
    with Journal(path, length=length) as journal:
        journal.append({"step": 2})
    assert read_journal(path) == [{"step": 0}, {"step": 2}]


def test_a_last_line_without_its_end_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    path.write_text('{"step":0}\n{"step":1')
    assert read_journal(path) == [{"step": 0}]


@pytest.mark.parametrize("broken", ['{"step":', "[1]", "", "\x00\x00"])
def test_a_broken_line_in_the_middle_is_refused_with_its_number(
    tmp_path: Path, broken: str
) -> None:
    path = tmp_path / "j.jsonl"
    path.write_text(f'{{"step":0}}\n{broken}\n{{"step":2}}\n')
    with refused("damaged: 2 … j.jsonl"):
        read_journal(path)


def test_values_that_json_lacks_are_refused(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.jsonl") as journal, pytest.raises(ValueError, match="JSON"):
        journal.append({"x": float("nan")})


def test_a_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "j.jsonl"
    real = os.pwrite

    def half(file: int, content: bytes, offset: int) -> int:
        real(file, content[:3], offset)
        raise OSError(errno.ENOSPC, "No space left on device")

    with Journal(path) as journal:
        journal.append({"step": 0})
        monkeypatch.setattr(os, "pwrite", half)
        with pytest.raises(OSError, match="No space"):
            journal.append({"step": 1})
        monkeypatch.undo()
        assert path.stat().st_size == journal.length
        journal.append({"step": 1})
    assert read_journal(path) == [{"step": 0}, {"step": 1}]


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, content, at: real(file, content[:3], at))
    with Journal(tmp_path / "j.jsonl") as journal:
        for step in range(3):
            journal.append({"step": step})
    assert read_journal(tmp_path / "j.jsonl") == [{"step": step} for step in range(3)]


def test_a_line_has_reached_the_disk_when_append_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_size))
    with Journal(tmp_path / "a.jsonl") as journal:
        synced.clear()
        journal.append({"step": 1})
        assert synced == [journal.length]
