"""Files of rows, CSV, JSON and Parquet: tables under checkwise's names, or logs of a trainer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from checkwise.readers import csv_log, domainbed, json_log, log_runs, swad, tables
from checkwise.readers.csv_file import header_of
from checkwise.readers.json_lines import JsonLines, Line, parsed_or_none
from checkwise.readers.parquet import MAGIC, open_parquet
from checkwise.readers.request import LoadedRun, Request, first_bytes, opened
from checkwise.readers.rows import is_tidy, log_of_rows, trainer_of

JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")
LONGEST_LINE = 1 << 24  # bytes of a first record
MARK = b"\xef\xbb\xbf"  # of UTF-8


def is_csv(path: Path) -> bool:
    """Whether a file is a table, by its name or by the names of its columns."""
    return path.is_file() and (path.suffix.lower() == ".csv" or csv_log.is_log(path))


def read_csv(path: Path, request: Request) -> list[LoadedRun]:
    """The runs of a table, or the one of a trainer's log."""
    if is_tidy(header_of(path), request):
        return tables.read(tables.open_csv(path, request), request)
    return log_runs.read(csv_log.open_logs(path, request), request)


def is_parquet(path: Path) -> bool:
    """Whether a file is Parquet, by its first bytes or its name."""
    if not path.is_file():
        return False
    return first_bytes(path, 4) == MAGIC or path.suffix.lower() in (".parquet", ".pq")


def read_parquet(path: Path, request: Request) -> list[LoadedRun]:
    """The runs of a table, or the one of a trainer's log."""
    sheet = open_parquet(path)
    header = list(sheet.header(np.arange(sheet.rows)))
    if is_tidy(header, request) or not header:
        return tables.read(sheet, request)
    log = log_of_rows(path, trainer_of(header), header, sheet.cells, request)
    return log_runs.read([log], request)


def is_json(path: Path) -> bool:
    """Whether a file is JSON, by its first letter or its name."""
    if not path.is_file():
        return False
    start = first_bytes(path, 64).removeprefix(MARK).lstrip()
    return start[:1] in (b"{", b"[") or path.suffix.lower() in JSON_SUFFIXES


def read_json(path: Path, request: Request) -> list[LoadedRun]:
    """The runs of a trainer's log, of a log of DomainBed or SWAD, or of a table."""
    document = None if _begins_with_record(path) else json_log.whole_document(path)
    if json_log.is_state(document) or json_log.is_history(document):
        return log_runs.read([json_log.open_document(document, path, request)], request)
    if isinstance(document, list) and document:
        if not all(isinstance(record, dict) for record in document):
            return log_runs.read([json_log.open_records(document, path, request)], request)
        return _read_records(
            [Line(k, record) for k, record in enumerate(document, 1)], path, request
        )
    lines = JsonLines(path)
    first = next(iter(lines))
    if domainbed.is_domainbed_log(first):
        return domainbed.read(lines, path, request)
    if swad.is_swad_log(first):
        return swad.read(lines, path, request)
    return _read_records(lines, path, request)


def _begins_with_record(path: Path) -> bool:
    """Whether a first line is an object by itself, and another begins after it."""
    with opened(path) as file:
        first, behind = file.readline(LONGEST_LINE).removeprefix(MARK), file.read(64)
    if not first.startswith(b"{") or not behind.lstrip().startswith(b"{"):
        return False
    return isinstance(parsed_or_none(first.decode("utf-8", "replace"), path), dict)


def _read_records(lines: Iterable[Line], path: Path, request: Request) -> list[LoadedRun]:
    header: dict[str, None] = {}
    columns: dict[str, bool] = {}
    for line in lines:
        header |= dict.fromkeys(line.fields)
        json_log.add_columns(line, columns)
    notes = lines.notes if isinstance(lines, JsonLines) else ()
    if is_tidy([*header], request):
        return tables.read(tables.sheet_of(lines, notes, path), request)
    return log_runs.read([json_log.of_lines(lines, columns, path, request, notes=notes)], request)
