"""Journals: one JSON line per checkpoint, added at the end, and the columns they hold.

A line is on the disk when ``append`` returns; a line that could not be written leaves nothing.
"""

from __future__ import annotations

import json
import os
import reprlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.records import outside
from checkwise.store import reading
from checkwise.store.reading import read_file

NOT_METRICS = ("n", "correct", "split", "step", "diverged")


def encode_line(record: Mapping[str, Any]) -> bytes:
    """One compact line; floats keep every bit."""
    text = json.dumps(record, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.encode() + b"\n"


def append_whole(file: int, content: bytes, *, at: int) -> None:
    """Write ``content`` after the first ``at`` bytes of an open file, and sync it.

    A short write is continued. If that fails, the file is cut back to ``at`` bytes and the
    ``OSError`` is raised. Where even that failed, the next call cuts it back, or raises.

    Raises:
        InputError: the file has less than ``at`` bytes.
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
    return parse_journal(read_file(path.parent, path.name), path)


def parse_journal(content: bytes, path: Path) -> list[dict[str, Any]]:
    """Every whole line of a journal's content; ``path`` is for messages.

    A last line without its end was being written when the process died, and is skipped. A broken
    line in the middle of the file is damage, and is refused.
    """
    records = []
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            record = reading.parse(line)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise InputError(
                f"Expected a JSON object, but got {line[:40]!r} in line {number} of {path}: the "
                "file is damaged; restore it, or remove the run's folder to train it again.",
                code="damaged",
            )
        records.append(record)
    return records


def steps_of(lines: Sequence[Mapping[str, Any]], path: Path) -> NDArray[np.int64]:
    """The steps of a journal, increasing."""
    steps: list[int] = []
    for number, line in enumerate(lines, start=1):
        step = line.get("step")
        if type(step) is not int or step < 0 or (steps and step <= steps[-1]):
            raise InputError(
                f"Expected increasing steps, but got {reprlib.repr(step)} in line {number} of "
                f"{path}: the file is damaged; `checkwise study status --verify` says what to do.",
                code="damaged",
            )
        steps.append(step)
    return np.array(steps, dtype=np.int64)


def diverged_of(lines: Sequence[Mapping[str, Any]]) -> NDArray[np.bool_]:
    """Which checkpoints had outputs that were not finite."""
    return np.array([bool(line.get("diverged")) for line in lines], dtype=bool)


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
    finite = [entry for entry, lost in zip(entries, diverged.tolist(), strict=True) if not lost]
    measured = finite or list(entries)
    names = [name for name in measured[0] if name not in NOT_METRICS]
    columns: dict[str, NDArray[Any]] = {}
    for name in ("n", "correct", *names):
        count = name in ("n", "correct")
        if count and all(name in entry and entry[name] is None for entry in measured):
            continue
        empty = 0 if count else np.nan
        values = [
            empty
            if (lost and name != "n") or (gaps and not count and entry.get(name) is None)
            else _number(entry, name, step, where, whole=count)
            for entry, lost, step in zip(entries, diverged.tolist(), steps.tolist(), strict=True)
        ]
        columns[name] = np.array(values, dtype=np.int64 if count else np.float64)
    return columns


def check_possible(
    columns: Mapping[str, NDArray[Any]],
    diverged: NDArray[np.bool_],
    steps: NDArray[np.int64],
    where: str,
) -> None:
    """Refuse what no metric can be; nan is a gap, and nothing is known of diverged checkpoints."""
    bad = {
        name: outside(column, name) & ~np.isnan(column)
        for name, column in columns.items()
        if name not in NOT_METRICS
    }
    if "n" in columns:
        bad["n"] = columns["n"] < 1
    if "correct" in columns:
        bad["correct"] = (columns["correct"] < 0) | (columns["correct"] > columns["n"])
    for name, rows in bad.items():
        for row in np.flatnonzero(rows & ~diverged).tolist():
            raise InputError(
                f"Expected a possible value of {name}, but got {columns[name][row]:g} at step "
                f"{steps[row]} in {where}: the file is damaged; `checkwise study status --verify` "
                "says what to do.",
                code="damaged",
            )


def _number(
    entry: Mapping[str, Any], name: str, step: int, where: str, *, whole: bool = False
) -> float:
    value = entry.get(name)
    if type(value) is float and not whole:
        return value
    kind = int if whole else int | float
    if isinstance(value, bool) or not isinstance(value, kind):
        raise InputError(
            f"Expected a {'whole ' * whole}number for {name}, but got {reprlib.repr(value)} at "
            f"step {step} in {where}: the file is damaged; `checkwise study status --verify` "
            "says what to do.",
            code="damaged",
        )
    return value
