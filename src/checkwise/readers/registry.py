"""Which reader reads a file; its contents decide, not its name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from checkwise.errors import InputError
from checkwise.readers import csv_log, domainbed, json_log, live_journal, log_runs, swad, tables
from checkwise.readers.csv_log import trainer_of
from checkwise.readers.json_lines import Line, read_lines
from checkwise.readers.openers import EVENTS, OPENERS, Opener
from checkwise.readers.request import LoadedRun, Request
from checkwise.readers.rows import log_of_rows
from checkwise.readers.stores import is_database
from checkwise.records import FACTS, REQUIRED, is_validation_of
from checkwise.store import PACKED_SUFFIX, is_live_journal, open_regular

ACCEPTED = (
    "a run or study folder of checkwise, a trainer's log, a table of metrics (.csv, .parquet, "
    ".jsonl), a predictions folder (step-000100/<domain>.npz), a DomainBed or SWAD results.jsonl, "
    "or a folder of such runs"
)
# Files of a folder that are looked into; a file that the caller names may be called anything.
LOG_SUFFIXES = (".csv", ".log", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".db", ".sqlite")
PARQUET = b"PAR1"
START = 64  # bytes that tell JSON, Parquet and databases apart


@dataclass(frozen=True)
class FileReader:
    """One kind of file: how to recognise it by its first bytes and its contents, how to read it."""

    recognise: Callable[[Path, bytes], bool]
    read: Callable[[Path, Request], list[LoadedRun]]


def _opened(opener: Opener) -> FileReader:
    return FileReader(
        lambda path, start: opener.recognises(path),
        lambda path, request: log_runs.read(opener.open_logs(path), request),
    )


def _is_journal(path: Path, start: bytes) -> bool:
    return is_live_journal(path)


def _is_parquet(path: Path, start: bytes) -> bool:
    return start.startswith(PARQUET) or path.suffix.lower() in (".parquet", ".pq")


def _read_parquet(path: Path, request: Request) -> list[LoadedRun]:
    sheet = tables.open_parquet(path)
    everything = np.arange(sheet.rows)
    header = list(sheet.header(everything))
    if is_tidy(header, request) or not header:
        return tables.read(sheet, request)

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
    if domainbed.is_domainbed_log(lines[0]):
        return domainbed.read(lines, notes, path, request)
    if swad.is_swad_log(lines[0]):
        return swad.read(lines, notes, path, request)
    return _read_records(lines, notes, path, request)


def _read_records(
    lines: Sequence[Line], notes: Iterable[str], path: Path, request: Request
) -> list[LoadedRun]:
    header = list(dict.fromkeys(name for line in lines for name in line.fields))
    if is_tidy(header, request):
        return tables.read_records(lines, notes, path, request)
    records = [line.fields for line in lines]
    log = json_log.open_records(records, path, request, notes=tuple(notes))
    return log_runs.read([log], request)


def _is_csv(path: Path, start: bytes) -> bool:
    return path.suffix.lower() == ".csv" or csv_log.recognises(path)


def _read_csv(path: Path, request: Request) -> list[LoadedRun]:
    if is_tidy(csv_log.header_of(path), request):
        return tables.read_csv(path, request)
    return log_runs.read(csv_log.open_logs(path, request), request)


def is_tidy(header: Sequence[str], request: Request) -> bool:
    """Whether columns are those of a table with a row per step and domain, under checkwise's names.

    Everything else is a trainer's log, whose columns are found by rules.
    """
    names = {*header, *request.columns}
    of_tables = {*FACTS, *tables.RUN_COLUMNS} - {"step"}
    if names & of_tables:
        return True
    if not names.issuperset(REQUIRED) or "accuracy" in request.columns:
        return False
    if trainer_of(header).validation:
        return False
    others = (column for column in header if column != "accuracy")
    return not any(is_validation_of(column, "accuracy") for column in others)


# In order; the first that recognises a file reads it.
FILE_READERS: list[FileReader] = [
    FileReader(_is_journal, live_journal.read),
    *map(_opened, (*OPENERS, EVENTS)),
    FileReader(_is_parquet, _read_parquet),
    FileReader(_is_json, _read_json),
    FileReader(_is_csv, _read_csv),
]


def file_reader(path: Path) -> FileReader | None:
    """The reader of a file, None where nobody recognises it."""
    with open_regular(path) as file:
        start = file.read(START)
    return next((reader for reader in FILE_READERS if reader.recognise(path, start)), None)


def read_file(path: Path, request: Request) -> list[LoadedRun]:
    """The runs of a table or log."""
    reader = file_reader(path)
    if reader is not None:
        return reader.read(path, request)
    if path.name.endswith(PACKED_SUFFIX):
        raise InputError(
            f"Expected {ACCEPTED}, but {path} is an archive: unpack it with "
            f"`checkwise study unpack {path} --out FOLDER`, then name the folder.",
            code="unsupported",
        )
    if is_database(path):
        raise InputError(
            f"Expected a store of MLflow or Trackio, but {path} is a database that is damaged, or "
            "of another program: check the path, or take a copy that is whole.",
            code="format",
        )
    if domainbed.is_console(path):
        raise InputError(
            f"Expected a run's {domainbed.LOG}, but {path} is what DomainBed printed on the "
            f"console, where the lines of several runs may be mixed: give the folder that holds "
            f"{domainbed.LOG}.",
            code="ambiguous",
        )
    raise InputError(
        f"Expected {ACCEPTED}, but {path} is none of these: check the path.", code="format"
    )


def logs_in(folder: Path) -> list[Path]:
    """The trainers' logs that lie directly in a folder, in order of their names."""
    names = sorted(name for name in os.listdir(folder) if name.lower().endswith(LOG_SUFFIXES))
    return [folder / name for name in names if _is_log(folder / name)]


def _is_log(path: Path) -> bool:
    if not path.is_file():
        return False
    if path.suffix.lower() in (".json", ".jsonl", ".ndjson"):
        return json_log.recognises_file(path)
    return csv_log.recognises(path) or any(one.recognises(path) for one in (*OPENERS, EVENTS))
