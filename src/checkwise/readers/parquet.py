"""Parquet: tables, and logs; it alone needs pyarrow."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from checkwise.errors import InputError, naming_extras
from checkwise.readers import tables
from checkwise.readers.log import Log
from checkwise.readers.request import LoadedRun, Request, first_bytes, read_bytes
from checkwise.readers.rows import is_tidy, log_of_rows
from checkwise.readers.tables import MOST_ROWS, Sheet

MAGIC = b"PAR1"


def recognises(path: Path) -> bool:
    """Whether a file is Parquet, by its first bytes or its name."""
    if not path.is_file():
        return False
    return first_bytes(path, len(MAGIC)) == MAGIC or path.suffix.lower() in (".parquet", ".pq")


def read(path: Path, request: Request) -> list[LoadedRun] | list[Log]:
    """The runs of a table, or the one log of a trainer."""
    sheet = open_parquet(path)
    header = sheet.header(np.arange(sheet.rows))
    if is_tidy(header, request) or not header:
        return tables.read(sheet, request)
    return [log_of_rows(path, header, sheet.cells, request)]


def open_parquet(path: Path) -> Sheet:
    """A Parquet file as a table; columns nobody asks for stay on disk."""
    with naming_extras():
        import pyarrow.parquet as pq
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
        left = length
        try:
            for part in file.iter_batches(columns=[*dict.fromkeys(names)]):
                left -= part.num_rows
                places = [part.schema.get_field_index(name) for name in names]
                if -1 in places:
                    raise ValueError("two columns of one name")
                yield from zip(*(part.column(at).to_pylist() for at in places), strict=True)
            if left:
                raise ValueError(f"it says {length} rows and holds {length - left}")
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
