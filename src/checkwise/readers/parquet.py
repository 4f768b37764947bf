"""Parquet files as tables; they alone need pyarrow."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.readers.request import read_bytes
from checkwise.readers.tables import MOST_ROWS, Sheet

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
    try:
        file = pq.ParquetFile(io.BytesIO(read_bytes(path)))
        header, length = list(file.schema_arrow.names), file.metadata.num_rows
    except Exception as error:
        raise _not_parquet(path, error) from None
    if length > MOST_ROWS:  # equal rows take no room in the file
        raise InputError(
            f"Expected at most {MOST_ROWS:,} rows, but {path} has {length:,}: leave out what is "
            "not source validation, or split it by run.",
            code="unsupported",
        )

    def cells(names: Sequence[str]) -> Iterator[Sequence[Any]]:
        try:
            for part in file.iter_batches(columns=[*dict.fromkeys(names)]):
                places = [part.schema.get_field_index(name) for name in names]
                if -1 in places:
                    raise ValueError("two columns of one name")
                yield from zip(*(part.column(at).to_pylist() for at in places), strict=True)
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
