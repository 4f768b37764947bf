"""Which reader reads a file; its contents decide, not its name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from checkwise.readers import domainbed, live_journal, swad, table_files, table_runs
from checkwise.readers.json_lines import Line, read_lines
from checkwise.readers.logs import csv_log, json_log, log_runs
from checkwise.readers.logs.csv_log import trainer_of
from checkwise.readers.logs.openers import opener
from checkwise.readers.logs.rows import log_of_rows
from checkwise.readers.request import LoadedRun, Request
from checkwise.records import column_names
from checkwise.records.from_frame import FACTS, REQUIRED
from checkwise.store.live_journal import is_live_journal

# Files of a folder that are looked into; a file that the caller names may be called anything.
LOG_SUFFIXES = (".csv", ".log", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".db", ".sqlite")
PARQUET = b"PAR1"
START = 64  # bytes that tell JSON, Parquet and databases apart


@dataclass(frozen=True)
class FileReader:
    """One kind of file: how to recognise it by its first bytes and its contents, how to read it."""

    recognise: Callable[[Path, bytes], bool]
    read: Callable[[Path, Request], list[LoadedRun]]


def _is_opened(path: Path, start: bytes) -> bool:
    return opener(path) is not None


def _read_opened(path: Path, request: Request) -> list[LoadedRun]:
    by = opener(path)
    return [] if by is None else log_runs.read(by.open_logs(path), request)


def _is_journal(path: Path, start: bytes) -> bool:
    return is_live_journal(path)


def _is_parquet(path: Path, start: bytes) -> bool:
    return start.startswith(PARQUET) or path.suffix.lower() in (".parquet", ".pq")


def _read_parquet(path: Path, request: Request) -> list[LoadedRun]:
    sheet = table_files.open_parquet(path)
    everything = np.arange(sheet.rows)
    header = list(sheet.header(everything))
    if is_tidy(header, request) or not header:
        return table_runs.read(sheet, request)

    def rows(names: Sequence[str]) -> Iterator[Sequence[Any]]:
        return zip(*(sheet.cells(name, everything) for name in names), strict=True)

    return log_runs.read([log_of_rows(path, trainer_of(header), header, rows, request)], request)


def _is_json(path: Path, start: bytes) -> bool:
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    return text[:1] in (b"{", b"[") or path.suffix.lower() in (".jsonl", ".ndjson", ".json")


def _read_json(path: Path, request: Request) -> list[LoadedRun]:
    document = json_log.whole_document(path)
    if isinstance(document, dict) and json_log.recognises(document):
        return log_runs.read([json_log.open_document(document, path, request)], request)
    if isinstance(document, list) and all(isinstance(record, dict) for record in document):
        return _read_records([Line(k, r) for k, r in enumerate(document, 1)], (), path, request)
    lines, notes = read_lines(path)
    if domainbed.recognises(lines[0]):
        return domainbed.read(lines, notes, path, request)
    if swad.recognises(lines[0]):
        return swad.read(lines, notes, path, request)
    return _read_records(lines, notes, path, request)


def _read_records(
    lines: Sequence[Line], notes: Iterable[str], path: Path, request: Request
) -> list[LoadedRun]:
    header = list(dict.fromkeys(name for line in lines for name in line.fields))
    if is_tidy(header, request):
        return table_files.read_records(lines, notes, path, request)
    records = [line.fields for line in lines]
    log = json_log.open_records(records, path, request, notes=tuple(notes))
    return log_runs.read([log], request)


def _is_csv(path: Path, start: bytes) -> bool:
    return path.suffix.lower() == ".csv" or csv_log.recognises(path)


def _read_csv(path: Path, request: Request) -> list[LoadedRun]:
    if is_tidy(csv_log.header_of(path), request):
        return table_files.read_csv(path, request)
    return log_runs.read(csv_log.open_logs(path, request), request)


def is_tidy(header: Sequence[str], request: Request) -> bool:
    """Whether columns are those of a table with a row per step and domain, under checkwise's names.

    Everything else is a trainer's log, whose columns are found by rules.
    """
    names = {*header, *request.columns}
    of_tables = {*FACTS, *table_runs.RUN_COLUMNS} - {"step"}
    if names & of_tables:
        return True
    if not names.issuperset(REQUIRED) or "accuracy" in request.columns:
        return False
    if trainer_of(header).validation:
        return False
    others = (column for column in header if column != "accuracy")
    return not any(column_names.is_validation_of(column, "accuracy") for column in others)


# In order; the first that recognises a file reads it.
FILE_READERS: list[FileReader] = [
    FileReader(_is_journal, live_journal.read),
    FileReader(_is_opened, _read_opened),
    FileReader(_is_parquet, _read_parquet),
    FileReader(_is_json, _read_json),
    FileReader(_is_csv, _read_csv),
]


def file_reader(path: Path) -> FileReader | None:
    """The reader of a file, None where nobody recognises it."""
    with path.open("rb") as file:
        start = file.read(START)
    return next((reader for reader in FILE_READERS if reader.recognise(path, start)), None)


def logs_in(folder: Path) -> list[Path]:
    """The trainers' logs that lie directly in a folder, in order of their names."""
    names = sorted(name for name in os.listdir(folder) if name.lower().endswith(LOG_SUFFIXES))
    return [folder / name for name in names if _is_log(folder / name)]


def _is_log(path: Path) -> bool:
    if not path.is_file():
        return False
    if path.suffix.lower() in (".json", ".jsonl", ".ndjson"):
        return json_log.recognises_file(path)
    return csv_log.recognises(path) or opener(path) is not None
