"""Databases of other programs: nothing beside them changes, and damage is an error."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from checkwise.errors import InputError
from checkwise.readers import load_runs
from checkwise.readers import mlflow_db as mlflow_store
from checkwise.readers import stores as sqlite_file
from checkwise.readers import trackio as trackio_store
from tests.readers.logs.tracker_stores import build, cells, listing, logs_in
from tests.refusals import refused

MORE = "INSERT INTO metrics SELECT key, value, timestamp + 1, run_uuid, 900, 0 FROM metrics"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    return build("mlflow", tmp_path / "store" / "mlflow.db")


def _read(store: Path) -> int:
    """The number of values in the store, all of them read."""
    logs = (log for log in logs_in(mlflow_store, store) if log.run != "digits/without steps")
    return sum(len(cells(log, name)) for log in logs for name in log.header)


@pytest.fixture
def live(store: Path) -> Iterator[sqlite3.Connection]:
    """A program that has the store open."""
    with closing(sqlite3.connect(store, timeout=0, isolation_level=None)) as connection:
        yield connection


def test_a_database_in_wal_mode_at_rest_is_read_in_place(store: Path) -> None:
    n_values = _read(store)
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    before = listing(store.parent)
    assert sorted(before) == ["mlflow.db"]
    assert _read(store) == n_values
    assert listing(store.parent) == before


def test_what_a_live_program_has_committed_is_read_and_nothing_changes(
    store: Path, live: sqlite3.Connection
) -> None:
    n_values = _read(store)
    live.execute("PRAGMA journal_mode = WAL")
    live.execute(MORE)
    before = listing(store.parent)
    assert "mlflow.db-wal" in before
    assert _read(store) > n_values
    assert listing(store.parent) == before
    live.execute("BEGIN IMMEDIATE")  # the program can write at once
    live.execute("DELETE FROM metrics")
    assert _read(store) > n_values  # and what it has not committed does not count
    live.execute("ROLLBACK")


def test_a_write_ahead_log_that_a_killed_program_left_is_read_and_stays(
    store: Path, tmp_path: Path, live: sqlite3.Connection
) -> None:
    n_values = _read(store)
    live.execute("PRAGMA journal_mode = WAL")
    live.execute(MORE)
    left = tmp_path / "left"
    left.mkdir()
    for name in ("mlflow.db", "mlflow.db-wal"):
        (left / name).write_bytes((store.parent / name).read_bytes())
    before = listing(left)
    assert _read(left / "mlflow.db") > n_values
    assert listing(left) == before


def test_a_link_to_a_database_reads_the_log_beside_the_database(
    store: Path, tmp_path: Path, live: sqlite3.Connection
) -> None:
    n_values = _read(store)
    live.execute("PRAGMA journal_mode = WAL")
    live.execute(MORE)
    link = tmp_path / "link.db"
    link.symlink_to(store)
    assert _read(link) > n_values


KILLED = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN")
connection.execute("UPDATE metrics SET value = value + 1")
connection.execute("CREATE TABLE big AS SELECT zeroblob(500000)")
os._exit(0)
"""


def test_an_unfinished_transaction_is_refused_and_left_to_its_program(store: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(store)], check=True)
    before = listing(store.parent)
    assert "mlflow.db-journal" in before
    for path in (store, store.parent):
        with refused("busy: mlflow.db-journal"):
            load_runs(path)
    assert listing(store.parent) == before


def test_a_journal_that_is_kept_empty_is_no_transaction(store: Path) -> None:
    (store.parent / "mlflow.db-journal").write_bytes(bytes(512))
    assert _read(store)


def test_a_database_that_changes_all_the_time_is_refused(store: Path) -> None:
    def disturbed(connection: sqlite3.Connection) -> None:
        store.write_bytes(store.read_bytes() + bytes(4096))

    with refused("busy"):
        sqlite_file.read(store, disturbed)


def test_a_view_is_not_a_table(tmp_path: Path) -> None:
    endless = (
        "ALTER TABLE metrics RENAME TO old; CREATE VIEW metrics AS WITH RECURSIVE n(i) AS "
        "(SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS key, 1 AS value, 1 AS timestamp, "
        "'x' AS run_uuid, i AS step, 0 AS is_nan FROM n"
    )
    assert not mlflow_store.recognises(build("mlflow", tmp_path / "mlflow.db", changes=endless))


def test_a_query_without_end_is_stopped(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "MOST_INSTRUCTIONS", 2_000_000)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    with refused("format: interrupted"):
        sqlite_file.read(store, lambda connection: connection.execute(endless).fetchall())


def test_too_many_values_are_refused(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "MOST_ROWS", 4)
    with refused("unsupported: 4"):
        _read(store)


def test_huge_cells_are_refused(store: Path, tmp_path: Path) -> None:
    change = "UPDATE runs SET name = CAST(zeroblob(30000000) AS TEXT)"
    with refused("format"):
        logs_in(mlflow_store, build("mlflow", tmp_path / "huge.db", changes=change))


def test_an_error_whose_message_is_not_text_is_an_error_all_the_same(tmp_path: Path) -> None:
    store = build("trackio", tmp_path / "digits.db")
    data = store.read_bytes()
    assert b"CREATE TABLE configs" in data
    store.write_bytes(data.replace(b"CREATE TABLE configs", b"CREATE \xc2ABLE configs", 1))
    assert not trackio_store.recognises(store)
    with refused("format"):
        logs_in(trackio_store, store)


@pytest.mark.parametrize("name", ["mlflow", "trackio"])
def test_damaged_databases_give_only_clear_errors(tmp_path: Path, name: str) -> None:
    opener = {"mlflow": mlflow_store, "trackio": trackio_store}[name]
    whole = build(name, tmp_path / "whole.db").read_bytes()
    damaged = tmp_path / "damaged.db"
    generator = random.Random(name)
    refusals: list[str] = []
    for trial in range(150):
        data = bytearray(whole)
        if trial % 3 == 0:
            del data[generator.randrange(len(data)) :]
        else:
            for _ in range(generator.choice((1, 30, 3000))):
                data[generator.randrange(len(data))] = generator.randrange(256)
        damaged.write_bytes(data)
        if not opener.recognises(damaged):
            refusals.append("not recognised")
            continue
        try:
            for log in logs_in(opener, damaged):
                for column in log.header:
                    log.points(column)
        except InputError as error:
            refusals.append(str(error))
    assert len(refusals) > 40
    assert all(text.startswith(("Expected ", "not recognised")) for text in refusals)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["damaged.db", "whole.db"]
