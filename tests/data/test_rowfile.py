"""Row files: whole or absent, continued after a kill, rebuilt when damaged."""

from __future__ import annotations

import fcntl
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from checkwise.errors import CheckwiseWarning
from checkwise.study.data.caches import RowWriter, cached_rows, open_rows
from tests.refusals import refused

SHAPE = (200, 6)
TYPE = np.dtype(np.float32)
CONTENT = np.arange(1200, dtype=np.float32).reshape(SHAPE)


def _fill(rows: RowWriter) -> None:
    for row in rows.missing().tolist():
        rows.write(row, CONTENT[row : row + 1])


def _refuse(rows: RowWriter) -> None:
    raise AssertionError("must not be built again")


def _flip_byte(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0xFF
    path.write_bytes(content)


def test_rows_come_back_and_are_built_once(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    first = cached_rows(path, SHAPE, TYPE, _fill)
    assert np.array_equal(first, CONTENT)
    assert isinstance(first, np.memmap)
    assert not first.flags.writeable
    assert np.array_equal(cached_rows(path, SHAPE, TYPE, _refuse), CONTENT)
    assert np.array_equal(np.load(path), CONTENT)


def test_an_all_zero_row_counts_as_written(tmp_path: Path) -> None:
    zeros = np.zeros((3, 4), dtype=np.uint8)
    rows = cached_rows(
        tmp_path / "rows.npy", (3, 4), np.dtype(np.uint8), lambda rows: rows.write(0, zeros)
    )
    assert np.array_equal(rows, zeros)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"not an array at all"),
        lambda path: path.write_bytes(path.read_bytes() + b"x"),
        lambda path: _flip_byte(path, 3),
        lambda path: _flip_byte(path, 128),
        lambda path: _flip_byte(path, 128 + 24 * 101),
        lambda path: _flip_byte(path, 128 + 28 * 200 - 1),
        lambda path: path.write_bytes(bytes(path.stat().st_size)),
    ],
)
def test_a_damaged_file_is_rebuilt(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    path = tmp_path / "rows.npy"
    cached_rows(path, SHAPE, TYPE, _fill)
    damage(path)
    assert open_rows(path, SHAPE[0]) is None
    with pytest.warns(CheckwiseWarning, match="is damaged; checkwise makes it again"):
        assert np.array_equal(cached_rows(path, SHAPE, TYPE, _fill), CONTENT)


def test_a_stopped_build_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    asked: list[list[int]] = []

    def stop_half_way(rows: RowWriter) -> None:
        asked.append(rows.missing().tolist())
        rows.write(0, CONTENT[:120])
        raise KeyboardInterrupt

    def go_on(rows: RowWriter) -> None:
        asked.append(rows.missing().tolist())
        _fill(rows)

    with pytest.raises(KeyboardInterrupt):
        cached_rows(path, SHAPE, TYPE, stop_half_way)
    assert not path.exists()
    assert np.array_equal(cached_rows(path, SHAPE, TYPE, go_on), CONTENT)
    assert asked == [list(range(200)), list(range(120, 200))]


def test_an_unfinished_file_is_never_published(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    with pytest.raises(AssertionError):
        cached_rows(path, SHAPE, TYPE, lambda rows: rows.write(0, CONTENT[:120]))
    assert not path.exists()


def test_builders_at_once_build_once(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    built: list[int] = []
    barrier = threading.Barrier(4)

    def count_and_fill(rows: RowWriter) -> None:
        built.append(1)
        _fill(rows)

    def build() -> None:
        barrier.wait()
        assert np.array_equal(cached_rows(path, SHAPE, TYPE, count_and_fill), CONTENT)

    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert built == [1]
    assert not list(tmp_path.glob("*.partial"))


def test_a_full_disk_is_told_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with refused("system"):
        cached_rows(tmp_path / "rows.npy", SHAPE, TYPE, _fill)


def test_a_file_system_without_locks_still_builds_whole_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError("no locks here")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert np.array_equal(cached_rows(tmp_path / "rows.npy", SHAPE, TYPE, _fill), CONTENT)
    assert not list(tmp_path.glob("*.partial"))
