"""JSON logs: transformers' ``trainer_state.json``, Keras' ``History.history``, records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.readers import log
from checkwise.readers.json_lines import Line, flattened, parsed_or_none
from checkwise.readers.log import Log, Trainer
from checkwise.readers.request import Request, first_bytes, read_bytes
from checkwise.readers.rows import log_of_rows, trainer_of

HISTORY = "log_history"
LARGEST_START = 1 << 20  # bytes in which a log names its columns


def is_log(path: Path) -> bool:
    """Whether a file in a folder holds a log of transformers or Keras, as far as JSON tells."""
    start = first_bytes(path, LARGEST_START)
    if b'"log_history"' not in start and b'"val_' not in start:
        return False
    try:
        document = whole_document(path)
    except InputError:
        return True  # reading it says what is wrong
    return is_state(document) or is_history(document)


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


def is_history(document: Any) -> bool:
    """Keras' ``History.history``: name → one value per epoch."""
    if not isinstance(document, dict) or not document:
        return False
    lists = [value for value in document.values() if isinstance(value, list)]
    return len(lists) == len(document) and len({len(values) for values in lists}) == 1


def open_document(document: Any, path: Path, request: Request) -> Log:
    """The log that a state of transformers or a history of Keras is."""
    if is_state(document):
        records = document[HISTORY]
        notes = _unfinished(document)
        return open_records(records, path, request, trainer=log.TRANSFORMERS, notes=notes)
    epochs = zip(*document.values(), strict=True)
    records = [
        {"epoch": epoch, **dict(zip(document, row, strict=True))}
        for epoch, row in enumerate(epochs)
    ]
    return open_records(records, path, request, trainer=log.KERAS)


def _unfinished(state: Mapping[str, Any]) -> tuple[str, ...]:
    """A note where a state was saved before the end of its training."""
    step, planned = state.get("global_step"), state.get("max_steps")
    if not isinstance(step, int) or not isinstance(planned, int) or not 0 < step < planned:
        return ()
    return (f"the log ends at step {step} of {planned} that were planned",)


def open_records(
    records: Sequence[Any],
    path: Path,
    request: Request,
    *,
    trainer: Trainer | None = None,
    notes: Sequence[str] = (),
) -> Log:
    """The log whose rows are JSON objects; values inside a value are named ``outer/inner``."""
    for place, record in enumerate(records, start=1):
        if not isinstance(record, dict):
            raise InputError(
                f"Expected one JSON object per evaluation, but record {place} in {path} is "
                f"{type(record).__name__}: check that this is the right file.",
                code="format",
            )
    lines = [Line(k, record) for k, record in enumerate(records, 1)]
    columns: dict[str, bool] = {}
    for line in lines:
        add_columns(line, columns)
    return of_lines(lines, columns, path, request, trainer=trainer, notes=notes)


def add_columns(line: Line, columns: dict[str, bool]) -> None:
    """Note the columns of a record, and whether some cell of each is no list."""
    for name, cell in flattened(line.fields).items():
        columns[name] = columns.get(name, False) or not isinstance(cell, list)


def of_lines(
    lines: Iterable[Line],
    columns: Mapping[str, bool],
    path: Path,
    request: Request,
    *,
    trainer: Trainer | None = None,
    notes: Sequence[str] = (),
) -> Log:
    """The log whose rows are records with these columns."""
    header = [name for name in columns if columns[name]]
    beside = [name for name in columns if not columns[name]]
    if not header:
        raise InputError(
            f"Expected records of evaluations, but {path} holds none yet.", code="empty"
        )

    def rows(names: Sequence[str]) -> Iterator[Sequence[Any]]:
        for line in lines:
            fields = flattened(line.fields)
            yield [fields.get(name) for name in names]

    trainer = trainer or trainer_of(header)
    return log_of_rows(path, trainer, header, rows, request, beside=beside, notes=notes)
