"""W&B's ``run-*.wandb``: a header, then LevelDB's log of protobuf records, some of them history.

Blocks of 32 KiB hold parts of records, each with a checksum, a length and a type. Of a record only
field 2 is looked at: items with a key (1, or nested parts of one, 2) and a value as JSON (16).
Nothing is unpickled, and no field is followed further than that.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from checkwise.errors import InputError
from checkwise.readers.event_files import fields
from checkwise.readers.json_lines import flattened, parsed_or_none
from checkwise.readers.log import WANDB, Log
from checkwise.readers.request import NoRecordsError, Request, first_bytes, names_in, read_bytes
from checkwise.readers.rows import log_of_records
from checkwise.readers.trackio import STEPS_OF_TRAINERS
from checkwise.words import shown

MAGIC: Final = b":W&B"
HEADER: Final = 7  # bytes of the file's header, and of each part's
BLOCK: Final = 1 << 15
WHOLE, FIRST, LAST = 1, 2, 4
# Keys of fields, number and wire type in one, of Record, HistoryRecord and HistoryItem.
_HISTORY, _ITEM, _KEY, _NESTED, _VALUE = 0x12, 0x0A, 0x0A, 0x12, 0x82
_NOT_METRICS: Final = ("_runtime", "_timestamp", "_wandb")


def recognises(path: Path) -> bool:
    """Whether a file is a transaction log of W&B, or a folder holds one."""
    files = [path / name for name in names_in(path) if name.endswith(".wandb")]
    return any(first_bytes(file, len(MAGIC)) == MAGIC for file in (files or [path]))


def read(path: Path, request: Request) -> list[Log]:
    """The history of every run in a folder, or of the one that a file is."""
    names = [name for name in names_in(path) if name.endswith(".wandb")]
    files = [path / name for name in names] if path.is_dir() else [path]
    return [_log(file, request, file.stem if len(files) > 1 else "") for file in files]


def _log(file: Path, request: Request, run: str) -> Log:
    rows: list[dict[str, Any]] = []
    notes: tuple[str, ...] = ()
    for record in _records(read_bytes(file)):
        if record is None:
            notes = ("its end is damaged or cut off, and not read",)
        else:
            rows += _rows(record, file)
    if not rows:
        raise NoRecordsError(
            f"Expected what `wandb.log` was given, but {file} holds none of it: check that it is "
            f"whole, or upload it with `wandb sync {file.parent}`, then export its history as CSV.",
            code="empty",
        )
    # `_step` counts calls of `wandb.log`; callbacks log the step of the training beside.
    named = {name for row in rows for name in row}
    step = next((name for name in STEPS_OF_TRAINERS if name in named), "_step")
    without = ("_step", *STEPS_OF_TRAINERS, *_NOT_METRICS)
    return log_of_records(
        file, rows, request, axes={"step": step}, without=without, trainer=WANDB, run=run,
        notes=notes,
    )  # fmt: skip


def _records(content: bytes) -> Iterator[bytes | None]:
    """The records of a log; None where a wrong checksum or a part that is cut off ends it."""
    place, parts = HEADER, list[bytes]()
    while place < len(content):
        header = content[place : place + HEADER]
        # Too few bytes for a part, or zeros, lead to the end of a block.
        if BLOCK - place % BLOCK < HEADER or header == bytes(HEADER):
            place += BLOCK - place % BLOCK
            continue
        if len(header) < HEADER:
            yield None
            return
        checksum, length, kind = struct.unpack("<IHB", header)
        part = content[place + HEADER : place + HEADER + length]
        if len(part) < length or zlib.crc32(part, zlib.crc32(bytes([kind]))) != checksum:
            yield None
            return
        parts = [part] if kind in (WHOLE, FIRST) else [*parts, part]
        if kind in (WHOLE, LAST):
            yield b"".join(parts)
        place += HEADER + length


def _rows(record: bytes, file: Path) -> list[dict[str, Any]]:
    """What a record says of calls of ``wandb.log``; one that is whole but no message is refused."""
    try:
        histories = [history for key, history in fields(record) if key == _HISTORY]
        calls = [
            [[*fields(item)] for key, item in fields(history) if key == _ITEM]
            for history in histories
        ]
    except (ValueError, IndexError):
        raise InputError(
            f"Expected W&B's records, but one of {file} cannot be read, although its checksum is "
            "right: upload the run with `wandb sync`, then export its history as CSV.",
            code="format",
        ) from None
    return [_row(items, file) for items in calls]


def _row(items: Sequence[Sequence[tuple[int, bytes]]], file: Path) -> dict[str, Any]:
    """Name → value of a call of ``wandb.log``; parts of nested names with slashes between.

    What cannot be read stays as text under its name, so that it changes no other column.
    """
    row: dict[str, Any] = {}
    for item in items:
        parts = [content for key, content in item if key == _NESTED]
        parts = parts or [content for key, content in item if key == _KEY]
        name = "/".join(part.decode(errors="backslashreplace") for part in parts)
        for value in [content for key, content in item if key == _VALUE] or [b"null"]:
            cell = parsed_or_none(value, file)
            if cell is None and value != b"null":
                cell = value.decode(errors="backslashreplace")
            for full, one in flattened({name: cell}).items():
                if full in row:
                    raise InputError(
                        f"Expected every key once in a record, but {file} has {shown(full)} twice "
                        "in one call of `wandb.log`: keep the one that counts.",
                        code="ambiguous",
                    )
                row[full] = one
    return row
