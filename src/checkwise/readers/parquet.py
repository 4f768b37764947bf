"""Parquet files as tables; they alone need pyarrow."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.readers.request import read_bytes
from checkwise.readers.tables import MOST_ROWS, Rows, Sheet

MAGIC = b"PAR1"


def open_parquet(path: Path) -> Sheet:
    """A Parquet file as a table; columns nobody asks for stay on disk."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(
            f"Expected pyarrow for the Parquet file {path}, but it is not installed: run "
            "`pip install 'checkwise[parquet]'`, or save the table as CSV.",
            code="missing",
        ) from None
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
