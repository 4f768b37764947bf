"""Trackers' databases of SQLite, which are read and never changed."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, TypeVar

from checkwise.errors import InputError
from checkwise.readers.request import first_bytes
from checkwise.words import listed, printable

SHORT_ID: Final = 8  # characters; what trackers themselves show


def unique_run_names(names: Mapping[str, str]) -> dict[str, str]:
    """A printable name for each run, by its identifier; "" where there is only one run.

    Args:
        names: name of each run by its identifier. Names may repeat, identifiers cannot.

    Example:
        >>> unique_run_names({"3f2a9c01aa": "cnn", "77b0d4e2bb": "cnn", "90c1f3a5cc": "vit"})
        {'3f2a9c01aa': 'cnn-3f2a9c01', '77b0d4e2bb': 'cnn-77b0d4e2', '90c1f3a5cc': 'vit'}
    """
    if len(names) == 1:
        return dict.fromkeys(names, "")
    labels = {run: printable(name) or printable(run) for run, name in names.items()}
    for length in (SHORT_ID, None):
        times = Counter(labels.values())
        labels = {
            run: label
            if times[label] == 1
            else f"{printable(names[run])}-{printable(run[:length])}"
            for run, label in labels.items()
        }
    return labels


MAGIC: Final = b"SQLite format 3\x00"
_JOURNAL_MAGIC: Final = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
MOST_ROWS = 5_000_000
LONGEST_CELL: Final = 1 << 24  # bytes
ATTEMPTS: Final = 5
PAUSE: Final = 0.1  # seconds between attempts; a tracker's transaction takes a few milliseconds
# A damaged tree can lead in circles; a scan of MOST_ROWS rows takes a tenth of this.
MOST_INSTRUCTIONS = 2_000_000_000
INSTRUCTIONS_PER_CHECK: Final = 1_000_000

Result = TypeVar("Result")


def is_database(path: Path) -> bool:
    """Whether a file begins as databases of SQLite do."""
    return first_bytes(path, len(MAGIC)) == MAGIC


def has_tables(path: Path, tables: Mapping[str, Sequence[str]]) -> bool:
    """Whether a file is an sqlite database with tables of these columns; never raises.

    One that is being written counts: who reads it says so.
    """
    try:
        return is_database(path) and not _query(path, lambda database: lacking(database, tables))
    except (sqlite3.Error, OSError, OverflowError, ValueError):  # also an InputError
        return False


def check_columns(path: Path, required: Mapping[str, Sequence[str]], advice: str) -> None:
    """Refuse a database whose tables lack some of these columns, with what to do about it."""
    absent = read(path, lambda connection: lacking(connection, required))
    if absent:
        raise InputError(
            f"Expected the columns {listed(absent)}, but the database {path} lacks them: {advice}.",
            code="missing",
        )


def read(path: Path, query: Callable[[sqlite3.Connection], Result]) -> Result:
    """What a query returns from a database that did not change while it ran."""
    for _ in range(ATTEMPTS):
        before, error = _state(path), None
        try:
            answer = _query(path, query)
        # Also a ValueError, where the message of sqlite's own error is not UTF-8.
        except (sqlite3.Error, OSError, OverflowError, ValueError) as caught:
            error = caught
        in_transaction = first_bytes(_beside(path, "-journal"), 8) == _JOURNAL_MAGIC
        if _state(path) == before and not in_transaction:
            if error is None:
                return answer
            if isinstance(error, InputError):
                raise error
            reason = printable(str(error).partition("\n")[0][:80])
            raise InputError(
                f"Expected an sqlite database, but {path} cannot be read as one ({reason}): copy "
                "it again from where it was written, or restore it from a backup.",
                code="format",
            )
        time.sleep(PAUSE)
    transaction = f"has an unfinished transaction in {path.name}-journal"
    raise InputError(
        f"Expected a database at rest, but {path} "
        f"{transaction if in_transaction else 'changed each time it was read'}: wait for the "
        "program that writes it, or open it once with that program, which undoes what a killed "
        "process left.",
        code="busy",
    )


def columns_of(connection: sqlite3.Connection, table: str) -> set[str]:
    """Names of the columns of a table; none where there is no such table.

    Views and virtual tables do not count: they run what the schema says.
    """
    rows = connection.execute(
        "SELECT field.name FROM sqlite_master AS thing, pragma_table_info(thing.name) AS field "
        "WHERE thing.name = ? AND thing.type = 'table' AND thing.sql NOT LIKE 'CREATE VIRTUAL%'",
        (table,),
    )
    return {str(name) for (name,) in rows}


def rows_of(connection: sqlite3.Connection, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    """The rows of a query, at most :data:`MOST_ROWS`."""
    rows = connection.execute(sql, values).fetchmany(MOST_ROWS + 1)
    if len(rows) > MOST_ROWS:
        raise InputError(
            f"Expected at most {MOST_ROWS:,} values of one metric, but there are more: delete the "
            "runs that are not needed.",
            code="unsupported",
        )
    return rows


def _query(path: Path, query: Callable[[sqlite3.Connection], Result]) -> Result:
    log = _beside(path, "-wal")
    if not (log.is_file() and log.stat().st_size):
        return _on(path.resolve(), "mode=ro&immutable=1", query)
    with tempfile.TemporaryDirectory(prefix="checkwise-") as folder:
        copy = Path(folder).resolve() / "copy.db"
        shutil.copyfile(path, copy)
        shutil.copyfile(log, _beside(copy, "-wal"))
        return _on(copy, "mode=rw", query)


def _on(path: Path, options: str, query: Callable[[sqlite3.Connection], Result]) -> Result:
    spent = 0

    def is_too_long() -> bool:
        nonlocal spent
        spent += INSTRUCTIONS_PER_CHECK
        return spent > MOST_INSTRUCTIONS

    with closing(sqlite3.connect(f"{path.as_uri()}?{options}", uri=True)) as connection:
        connection.set_progress_handler(is_too_long, INSTRUCTIONS_PER_CHECK)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_CELL)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        return query(connection)


def lacking(connection: sqlite3.Connection, tables: Mapping[str, Sequence[str]]) -> list[str]:
    """The columns that a database lacks, as ``table.column``."""
    return [
        f"{table}.{column}"
        for table, columns in tables.items()
        for column in sorted(set(columns) - columns_of(connection, table))
    ]


def _state(path: Path) -> list[tuple[int, int] | None]:
    """Size and time of change of the database and of the logs beside it; None for no file."""
    stamps: list[tuple[int, int] | None] = []
    for ending in ("", "-wal", "-journal"):
        try:
            status = _beside(path, ending).stat()
        except OSError:
            stamps.append(None)
        else:
            stamps.append((status.st_size, status.st_mtime_ns))
    return stamps


def _beside(path: Path, ending: str) -> Path:
    """The database or a file beside it; sqlite looks for those where a link leads."""
    real = path.resolve()
    return real.with_name(real.name + ending)
