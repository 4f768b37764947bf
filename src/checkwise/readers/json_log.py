"""JSON logs: transformers' ``trainer_state.json``, Keras' ``History.history``, lines of records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.readers import log
from checkwise.readers.csv_log import trainer_of
from checkwise.readers.json_lines import flattened, parsed
from checkwise.readers.log import Log, Trainer
from checkwise.readers.request import Request, read_bytes
from checkwise.readers.rows import log_of_rows
from checkwise.store import open_regular

HISTORY = "log_history"
LARGEST_START = 1 << 20  # bytes in which a log names its columns


def whole_document(path: Path) -> Any:
    """The JSON value that a file holds as a whole; None where it holds no single value."""
    try:
        return parsed(read_bytes(path).decode("utf-8-sig"), path)
    except InputError:
        raise
    except (ValueError, RecursionError):
        return None


def recognises_file(path: Path) -> bool:
    """Whether a file in a folder holds a log of transformers or Keras, as far as JSON tells."""
    with open_regular(path) as file:
        start = file.read(LARGEST_START)
    if b'"log_history"' not in start and b'"val_' not in start:
        return False
    try:
        document = whole_document(path)
    except InputError:
        return True  # reading it says what is wrong
    return is_state(document) or _is_history(document)


def recognises(document: Any) -> bool:
    """Whether a JSON value is a trainer's log: a state, a history, or a list of records."""
    return is_state(document) or _is_history(document) or _is_records(document)


def is_state(document: Any) -> bool:
    """Whether a JSON value is the state of a transformers run."""
    return isinstance(document, dict) and isinstance(document.get(HISTORY), list)


def _is_history(document: Any) -> bool:
    """Keras' ``History.history``: name → one value per epoch."""
    if not isinstance(document, dict) or not document:
        return False
    lists = [value for value in document.values() if isinstance(value, list)]
    return len(lists) == len(document) and len({len(values) for values in lists}) == 1


def _is_records(document: Any) -> bool:
    return isinstance(document, list) and bool(document)


def open_document(document: Any, path: Path, request: Request) -> Log:
    """The log that a JSON value is."""
    if is_state(document):
        return open_records(
            document[HISTORY],
            path,
            request,
            trainer=log.TRANSFORMERS,
            notes=_unfinished(document),
        )
    if _is_history(document):
        length = len(next(iter(document.values())))
        records = [
            {"epoch": epoch, **{name: values[epoch] for name, values in document.items()}}
            for epoch in range(length)
        ]
        return open_records(records, path, request, trainer=log.KERAS)
    return open_records(document, path, request)


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
    rows: list[dict[str, Any]] = []
    for number, record in enumerate(records, start=1):
        if not isinstance(record, dict):
            raise InputError(
                f"Expected one JSON object per evaluation, but record {number} in {path} is "
                f"{type(record).__name__}: check that this is the right file.",
                code="format",
            )
        rows.append(flattened(record))
    names = dict.fromkeys(name for row in rows for name in row)
    metrics = {n for row in rows for n, cell in row.items() if not isinstance(cell, list)}
    header = [name for name in names if name in metrics]
    beside = [name for name in names if name not in metrics]
    if not header:
        raise InputError(
            f"Expected records of evaluations, but {path} holds none yet.", code="empty"
        )

    def cells(names: Sequence[str]) -> Iterator[Sequence[Any]]:
        return ([row.get(name) for name in names] for row in rows)

    trainer = trainer or trainer_of(header)
    return log_of_rows(path, trainer, header, cells, request, beside=beside, notes=notes)
