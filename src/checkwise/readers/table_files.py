"""Tidy tables of metrics: CSV, Parquet or JSON lines, one row per step and domain.

Text is turned into numbers cell by cell and after target rows are gone, so a cell is read the same
whatever stands in the rows around it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.readers import table_runs
from checkwise.readers.json_lines import Line
from checkwise.readers.request import LoadedRun, Request, read_bytes
from checkwise.readers.table_runs import Rows, Sheet

MOST_ROWS = 5_000_000


def read_csv(path: Path, request: Request) -> list[LoadedRun]:
    """The runs of a comma-separated file whose first line names the columns."""
    return table_runs.read(open_csv(path, request), request)


def open_csv(path: Path, request: Request) -> Sheet:
    """A comma-separated file as a table."""
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"Expected UTF-8 text, but {path} is not (byte {error.start}): save it as UTF-8 CSV.",
            code="format",
        ) from None
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    table: list[list[str]] = []
    try:
        header = [name.strip() for name in next(lines, [])]
        table_runs.check_header(header, request, path)
        for row in lines:
            if len(row) == len(header):
                table.append(row)
            elif row:
                raise InputError(
                    f"Expected {len(header)} cells as in the first line, but {path} line "
                    f"{lines.line_num} has {len(row)}: complete that line or remove it.",
                    code="format",
                )
    except csv.Error as error:
        raise InputError(
            f"Expected comma-separated values, but {path} line {lines.line_num} is not ({error}): "
            "check its quotes.",
            code="format",
        ) from None

    places = {name: place for place, name in reversed([*enumerate(header)])}

    def cells(column: str, rows: Rows) -> list[str]:
        index = places[column]
        return [table[row][index].strip() for row in rows.tolist()]

    return Sheet(path, len(table), lambda rows: header, cells)


def open_parquet(path: Path) -> Sheet:
    """A Parquet file as a table; columns nobody asks for stay on disk."""
    import pyarrow.parquet as pq

    data = io.BytesIO(read_bytes(path))
    try:
        schema = pq.ParquetFile(data)
        header, length = list(schema.schema_arrow.names), schema.metadata.num_rows
    except Exception as error:
        raise _not_parquet(path, error) from None
    if length > MOST_ROWS:  # equal rows take no room in the file
        raise InputError(
            f"Expected at most {MOST_ROWS:,} rows, but {path} has {length:,}: leave out what is "
            "not source validation, or split it by run.",
            code="unsupported",
        )

    def cells(column: str, rows: Rows) -> list[Any]:
        try:
            taken = pq.read_table(data, columns=[column]).column(column).take(rows)
            return list(taken.to_pylist())
        except Exception as error:
            raise _not_parquet(path, error) from None

    return Sheet(path, length, lambda rows: header, cells)


def _not_parquet(path: Path, error: Exception) -> InputError:
    """Damage surfaces as a dozen kinds of error; all mean the same to the caller."""
    reason = str(error).partition("\n")[0][:80]
    return InputError(
        f"Expected a Parquet file, but {path} cannot be read as one ({reason}): write it again.",
        code="format",
    )


def read_records(
    lines: Sequence[Line], notes: Iterable[str], path: Path, request: Request
) -> list[LoadedRun]:
    """The runs of a file of JSON lines, each one row."""
    return table_runs.read(sheet_of(lines, notes, path), request)


def sheet_of(lines: Sequence[Line], notes: Iterable[str], path: Path) -> Sheet:
    """Lines of JSON as a table, each one row."""

    def header(rows: Rows) -> list[str]:
        return list(dict.fromkeys(name for row in rows.tolist() for name in lines[row].fields))

    def cells(column: str, rows: Rows) -> list[Any]:
        return [lines[row].fields.get(column) for row in rows.tolist()]

    return Sheet(path, len(lines), header, cells, tuple(notes))
