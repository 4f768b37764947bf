"""JSON: DomainBed, SWAD, transformers' state, Keras' history, and records as table or log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.readers import domainbed, history, log, swad, tables
from checkwise.readers.columns import has_validation
from checkwise.readers.json_lines import JsonLines, Line, flattened, parsed_or_none
from checkwise.readers.log import Best, Log, Trainer
from checkwise.readers.request import (
    JSON_SUFFIXES,
    MARK,
    LoadedRun,
    Request,
    first_bytes,
    opened,
    read_bytes,
)
from checkwise.readers.rows import has_axis, is_tidy, log_of_rows, trainer_of

HISTORY = "log_history"
LARGEST_START = 1 << 20  # bytes in which a log names its columns
LONGEST_LINE = 1 << 24  # bytes of a first record
# A name with a word for validation, which `value` and `interval` are not.
_NAMES_VALIDATION = re.compile(
    rb'"(?:[^"]{0,60}[^a-zA-Z"])?(?i:val|valid|validation|eval|evaluation|dev)'
    rb'(?:[^a-z"][^"]{0,60})?"\s*:'
)


def recognises(path: Path) -> bool:
    """Whether a file is JSON, by its first letter or its name."""
    if not path.is_file():
        return False
    start = first_bytes(path, 64).removeprefix(MARK).lstrip()
    return start[:1] in (b"{", b"[") or path.suffix.lower() in JSON_SUFFIXES


def is_log(path: Path) -> bool:
    """Whether a file in a folder holds a log of transformers or Keras, as far as JSON tells."""
    start = first_bytes(path, LARGEST_START)
    if b'"log_history"' not in start and not _NAMES_VALIDATION.search(start):
        return False
    try:
        document = whole_document(path)
    except InputError:  # reading it says what is wrong
        return b'"log_history"' in start or b'"val_' in start
    return is_state(document) or history.is_history(document) or _is_records(document)


def _is_records(document: Any) -> bool:
    """Whether a JSON value is a list of records with an epoch or step and a validation metric."""
    if not isinstance(document, list) or not all(isinstance(one, dict) for one in document):
        return False
    header = [name for record in document[:1] for name in flattened(record)]
    return has_axis(header) and has_validation(header, trainer_of(header))


def read(path: Path, request: Request) -> list[LoadedRun] | list[Log]:
    """The runs of a log of DomainBed or SWAD or of a table, or the one log of a trainer."""
    document = None if _begins_with_record(path) else whole_document(path)
    if is_state(document) or history.is_history(document) or _has_lists_alone(document):
        return [open_document(document, path, request)]
    if isinstance(document, dict) and b"\n" in read_bytes(path).strip():  # of no JSON lines
        if history.has_lists(document):
            return [open_document(document, path, request)]
        raise InputError(
            f"Expected values of every epoch, but {path} holds one value of each name: give the "
            "log of the training, not its summary.",
            code="unsupported",
        )
    if isinstance(document, list) and document:
        return _read_records(_lines(document, path), path, request)
    lines = JsonLines(path)
    with closing(iter(lines)) as records:
        first = next(records)
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


def _has_lists_alone(document: Any) -> bool:
    if not isinstance(document, dict) or not document:
        return False
    return all(isinstance(value, list) for value in document.values())


def is_state(document: Any) -> bool:
    """Whether a JSON value is the state of a transformers run."""
    return isinstance(document, dict) and isinstance(document.get(HISTORY), list)


def open_document(document: Any, path: Path, request: Request) -> Log:
    """The log that a state of transformers, or a history, is."""
    if not is_state(document):
        return history.open_history(document, path, request)
    lines, notes = _lines(document[HISTORY], path), _unfinished(document)
    found = _log(lines, path, request, trainer=log.TRANSFORMERS, notes=notes)
    return replace(found, best=_best(document, lines))


def _best(state: Mapping[str, Any], lines: Iterable[Line]) -> Best | None:
    """The checkpoint that the Trainer calls its best, and the score whose value it names."""
    name, value = state.get("best_model_checkpoint"), state.get("best_metric")
    match = re.search(r"checkpoint-([0-9]{1,15})$", name) if isinstance(name, str) else None
    if match is None:
        return None
    step = int(match[1])
    named = [
        column
        for line in lines
        if line.fields.get("step") == step
        for column, cell in line.fields.items()
        if cell == value and value is not None and column.startswith("eval")
    ]
    return Best(match[0], step, named[0] if named else "")


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
        for name, cell in flattened(line.fields, f"{path} record {line.number}").items():
            is_column[name] = is_column.get(name, False) or not isinstance(cell, list)
    header = [name for name in is_column if is_column[name]]
    if not header:
        raise InputError(
            f"Expected records of evaluations, but {path} holds none yet.", code="empty"
        )

    def records() -> Iterator[Mapping[str, Any]]:
        return (flattened(line.fields) for line in lines)

    def rows(names: Sequence[str]) -> Iterator[Sequence[Any]]:
        return ([fields.get(name) for name in names] for fields in records())

    beside = [name for name in is_column if not is_column[name]]
    return log_of_rows(
        path, header, rows, request, trainer=trainer, beside=beside, records=records,
        notes=tuple(notes),
    )  # fmt: skip
