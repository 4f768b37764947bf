"""Journals: one JSON line per checkpoint, added at the end, and the columns they hold.

A line is on the disk when ``append_whole`` returns; one that could not be written leaves nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.store import reading
from checkwise.store.layout import damaged_file

_COUNTS: Final = ("n", "correct")
NOT_METRICS: Final = (*_COUNTS, "split", "step", "diverged")


def encode_line(record: Mapping[str, Any]) -> bytes:
    """One compact line; floats keep every bit."""
    text = json.dumps(record, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.encode() + b"\n"


def append_whole(file: int, content: bytes, *, at: int) -> None:
    """Write ``content`` after the first ``at`` bytes of an open file, and sync it.

    A short write is continued. If that fails, the file is cut back to ``at`` bytes and the
    ``OSError`` is raised. Where even that failed, the next call cuts it back, or raises.
    """
    size = os.fstat(file).st_size
    if size < at:
        raise InputError(
            f"Expected at least {at} bytes, but got {size} in a journal that this process writes: "
            "something else has shortened it; restore it, and run the same command again.",
            code="damaged",
        )
    if size > at:
        os.ftruncate(file, at)
    try:
        view = memoryview(content)
        while view:
            view = view[os.pwrite(file, view, at + len(content) - len(view)) :]
        os.fsync(file)
    except OSError:
        with suppress(OSError):
            os.ftruncate(file, at)
        raise


def read_journal(path: Path) -> list[dict[str, Any]]:
    """Every whole line of a journal (see ``parse_journal``)."""
    return parse_journal(reading.read_file(path.parent, path.name), path)


def parse_journal(content: bytes, path: Path) -> list[dict[str, Any]]:
    """Every whole line of a journal's content; ``path`` is for messages."""

    def damaged(number: int, line: bytes) -> InputError:
        return InputError(
            f"Expected a JSON object, but got {line[:40]!r} in line {number} of {path}: the "
            "file is damaged; restore it, or remove the run's folder to train it again.",
            code="damaged",
        )

    return whole_lines(content, damaged)


def whole_lines(
    content: bytes, damaged: Callable[[int, bytes], InputError]
) -> list[dict[str, Any]]:
    """The JSON objects of a journal's lines; one in the middle that is broken is refused.

    A last line without its end was being written when the process died, and is skipped.
    """
    records = []
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            record = reading.parse(line)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise damaged(number, line)
        records.append(record)
    return records


def steps_of(
    lines: Sequence[Mapping[str, Any]], path: Path
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The steps of a journal, increasing, and at which of them outputs were not finite."""
    steps: list[int] = []
    for number, line in enumerate(lines, start=1):
        step = line.get("step")
        if type(step) is not int or step < 0 or (steps and step <= steps[-1]):
            raise damaged_file("increasing steps", step, f"line {number} of {path}")
        steps.append(step)
    diverged = [bool(line.get("diverged")) for line in lines]
    return np.array(steps, dtype=np.int64), np.array(diverged, dtype=bool)


def metric_columns(
    entries: Sequence[Mapping[str, Any]],
    diverged: NDArray[np.bool_],
    steps: NDArray[np.int64],
    where: str,
    *,
    gaps: bool = False,
) -> dict[str, NDArray[Any]]:
    """Columns ``n``, ``correct`` and every metric; nan (0 correct) where a checkpoint diverged.

    A count that is null in every line is unknown and has no column. With ``gaps`` a metric may be
    null where nothing was measured, and is nan there.
    """
    rows = list(zip(entries, diverged.tolist(), steps.tolist(), strict=True))
    measured = [entry for entry, lost, _ in rows if not lost] or list(entries)
    columns: dict[str, NDArray[Any]] = {}
    for name in (*_COUNTS, *(name for name in measured[0] if name not in NOT_METRICS)):
        count = name in _COUNTS
        if count and all(name in entry and entry[name] is None for entry in measured):
            continue
        values: list[float] = []
        for entry, lost, step in rows:
            value = entry.get(name)
            if (lost and name != "n") or (gaps and not count and value is None):
                value = 0 if count else np.nan
            elif isinstance(value, bool) or not isinstance(value, int if count else int | float):
                kind = "a whole number" if count else "a number"
                raise damaged_file(f"{kind} for {name}", value, f"{where} at step {step}")
            values.append(value)
        columns[name] = np.array(values, dtype=np.int64 if count else np.float64)
    return columns
