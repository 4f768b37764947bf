"""JSON: DomainBed, SWAD, transformers' state, Keras' history, and records as table or log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.readers import domainbed, log, swad, tables
from checkwise.readers.json_lines import JsonLines, Line, flattened, parsed_or_none
from checkwise.readers.log import Log, Trainer
from checkwise.readers.request import LoadedRun, Request, first_bytes, opened, read_bytes
from checkwise.readers.rows import is_tidy, log_of_rows

SUFFIXES = (".json", ".jsonl", ".ndjson")
HISTORY = "log_history"
LARGEST_START = 1 << 20  # bytes in which a log names its columns
LONGEST_LINE = 1 << 24  # bytes of a first record
MARK = b"\xef\xbb\xbf"  # of UTF-8


def recognises(path: Path) -> bool:
    """Whether a file is JSON, by its first letter or its name."""
    if not path.is_file():
        return False
    start = first_bytes(path, 64).removeprefix(MARK).lstrip()
    return start[:1] in (b"{", b"[") or path.suffix.lower() in SUFFIXES


def is_log(path: Path) -> bool:
    """Whether a file in a folder holds a log of transformers or Keras, as far as JSON tells."""
    start = first_bytes(path, LARGEST_START)
    if b'"log_history"' not in start and b'"val_' not in start:
        return False
    try:
        document = whole_document(path)
    except InputError:
        return True  # reading it says what is wrong
    return is_state(document) or _is_history(document)


def read(path: Path, request: Request) -> list[LoadedRun] | list[Log]:
    """The runs of a log of DomainBed or SWAD or of a table, or the one log of a trainer."""
    document = None if _begins_with_record(path) else whole_document(path)
    if is_state(document) or _is_history(document):
        return [open_document(document, path, request)]
    if isinstance(document, list) and document:
        return _read_records(_lines(document, path), path, request)
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


def whole_document(path: Path) -> Any:
    """The JSON value that a file holds as a whole; None where it holds no single value."""
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return parsed_or_none(text, path)


def is_state(document: Any) -> bool:
    """Whether a JSON value is the state of a transformers run."""
    return isinstance(document, dict) and isinstance(document.get(HISTORY), list)


def _is_history(document: Any) -> bool:
    """Keras' ``History.history``: name → one value per epoch."""
    if not isinstance(document, dict) or not document:
        return False
    lists = [value for value in document.values() if isinstance(value, list)]
    return len(lists) == len(document) and len({len(values) for values in lists}) == 1


def open_document(document: Any, path: Path, request: Request) -> Log:
    """The log that a state of transformers or a history of Keras is."""
    if is_state(document):
        lines, notes = _lines(document[HISTORY], path), _unfinished(document)
        return _log(lines, path, request, trainer=log.TRANSFORMERS, notes=notes)
    rows = enumerate(zip(*document.values(), strict=True))
    records = [{"epoch": epoch, **dict(zip(document, row, strict=True))} for epoch, row in rows]
    return _log(_lines(records, path), path, request, trainer=log.KERAS)


def _unfinished(state: Mapping[str, Any]) -> tuple[str, ...]:
    """A note where a state was saved before the end of its training."""
    step, planned = state.get("global_step"), state.get("max_steps")
    if not isinstance(step, int) or not isinstance(planned, int) or not 0 < step < planned:
        return ()
    return (f"the log ends at step {step} of {planned} that were planned",)


def _lines(records: Iterable[Any], path: Path) -> list[Line]:
    lines = [Line(number, record) for number, record in enumerate(records, start=1)]
    for number, record in lines:
        if not isinstance(record, dict):
            raise InputError(
                f"Expected one JSON object per evaluation, but record {number} in {path} is "
                f"{type(record).__name__}: check that this is the right file.",
                code="format",
            )
    return lines


def _read_records(
    lines: Iterable[Line], path: Path, request: Request
) -> list[LoadedRun] | list[Log]:
    header = list(dict.fromkeys(name for line in lines for name in line.fields))
    notes = lines.notes if isinstance(lines, JsonLines) else ()
    if is_tidy(header, request):
        return tables.read(tables.sheet_of(lines, notes, path), request)
    return [_log(lines, path, request, notes=notes)]


def _log(
    lines: Iterable[Line],
    path: Path,
    request: Request,
    *,
    trainer: Trainer | None = None,
    notes: Sequence[str] = (),
) -> Log:
    """The log whose rows are JSON objects; values inside a value are named ``outer/inner``."""
    is_column: dict[str, bool] = {}  # which no column of lists is
    for line in lines:
        for name, cell in flattened(line.fields).items():
            is_column[name] = is_column.get(name, False) or not isinstance(cell, list)
    header = [name for name in is_column if is_column[name]]
    if not header:
        raise InputError(
            f"Expected records of evaluations, but {path} holds none yet.", code="empty"
        )

    def rows(names: Sequence[str]) -> Iterator[Sequence[Any]]:
        for line in lines:
            fields = flattened(line.fields)
            yield [fields.get(name) for name in names]

    beside = [name for name in is_column if not is_column[name]]
    return log_of_rows(
        path, header, rows, request, trainer=trainer, beside=beside, notes=tuple(notes)
    )
