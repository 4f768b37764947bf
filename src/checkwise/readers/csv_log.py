"""CSV logs: Lightning, Keras, timm, Ultralytics, fastai, W&B's history, and anybody's own."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from checkwise.errors import InputError
from checkwise.readers import log
from checkwise.readers.columns import Side, has_validation, side
from checkwise.readers.log import Log, Trainer
from checkwise.readers.request import Request, read_bytes
from checkwise.readers.rows import has_axis, log_of_rows
from checkwise.store import open_regular

SEPARATORS = (",", ";", "\t")
OF_VALIDATION = (Side.VALIDATION, Side.UNKNOWN)
LONGEST_HEADER = 1 << 16  # bytes


def recognises(path: Path) -> bool:
    """Whether a file's first line names steps or epochs and a validation accuracy or loss."""
    try:
        header = header_of(path)
    except InputError:
        return False
    return has_axis(header) and has_validation(header, trainer_of(header))


def header_of(path: Path) -> list[str]:
    """The columns that the first line of a file names."""
    try:
        with open_regular(path) as file:
            return _header(file.readline(LONGEST_HEADER), path)
    except OSError as error:
        raise InputError(
            f"Expected a readable file, but {path} cannot be read ({error.strerror}): check its "
            "permissions.",
            code="system",
        ) from None


def open_logs(path: Path, request: Request) -> list[Log]:
    """The log in a file; its cells are read when a column is asked for."""
    content = read_bytes(path)
    first, _, rest = content.partition(b"\n")
    header, separator = _header(first, path), _separator(first)
    repeated = sorted(name for name, times in Counter(header).items() if name and times > 1)
    if repeated:
        raise InputError(
            f"Column {repeated[0]!r} appears twice in {path}: keep one of them.", code="ambiguous"
        )
    notes = []
    begin = content.rfind(b"\n") + 1
    last_line = content[begin:]
    if rest and last_line and not _is_whole(last_line, separator, len(header)):
        content = content[:begin]
        notes.append("the last line was cut off and is not read")
    named = [name for name in header if name]
    header = [name or f"column {place}" for place, name in enumerate(header, start=1)]
    table = _Table(path, content, header, separator)
    unnamed = sorted(set(header) - set(named))
    trainer = trainer_of(named)
    return [log_of_rows(path, trainer, named, table.rows, request, beside=unnamed, notes=notes)]


def trainer_of(header: Sequence[str]) -> Trainer:
    """Whose log it is, by the columns that only this trainer writes."""
    names = set(header)
    if {"epoch", "train_loss", "eval_loss", "eval_top1"} <= names:
        return log.TIMM
    measured = [name for name in header if name.startswith("metrics/")]
    if "epoch" in names and measured:
        return replace(log.ULTRALYTICS, validation=tuple(measured))
    if {"epoch", "train_loss", "valid_loss", "time"} <= names:
        # All further columns are metrics on validation, unless their names say otherwise.
        others = [name for name in header if name not in ("epoch", "train_loss", "time")]
        measured = [name for name in others if side(name, log.OTHER) in OF_VALIDATION]
        return replace(log.FASTAI, validation=tuple(measured))
    if "_step" in names and names & {"_runtime", "_timestamp"}:
        return log.WANDB
    if {"training_iteration", "trial_id"} <= names:
        return log.RAY
    if "epoch" in names and any(f"val_{name}" in names for name in names):
        return log.KERAS
    if {"epoch", "step"} <= names:
        return log.LIGHTNING
    return log.OTHER


_KEPT: Final = 1 << 25  # bytes; a larger file is parsed again for every column that is read


@dataclass(frozen=True)
class _Table:
    """A file as it was when it was opened; a training that goes on may append to it."""

    path: Path
    content: bytes
    header: list[str]
    separator: str

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in reversed([*enumerate(self.header)])}

    @cached_property
    def _parsed(self) -> list[list[str]]:
        return list(self._read())

    def rows(self, names: Sequence[str]) -> Iterator[Sequence[Any]]:
        """The cells under some names, of every row in which the first of them is filled."""
        first, *others = (self._places[name] for name in names)
        for row in self._parsed if len(self.content) <= _KEPT else self._read():
            cell = row[first].strip()
            if cell and cell != names[0]:  # a header may have been written again
                yield [cell, *(row[place].strip() for place in others)]

    def _read(self) -> Iterator[list[str]]:
        width = len(self.header)
        text = io.TextIOWrapper(io.BytesIO(self.content), "utf-8-sig", newline="")
        lines = csv.reader(text, delimiter=self.separator, strict=True)
        try:
            next(lines, None)
            for row in lines:
                if len(row) == width:
                    yield row
                elif row:
                    raise self._wrong(lines.line_num, f"has {len(row)} cells instead of {width}")
        except csv.Error as error:
            raise self._wrong(lines.line_num, f"cannot be read ({error})") from None
        except UnicodeDecodeError:
            raise self._wrong(lines.line_num + 1, "is not UTF-8 text") from None

    def _wrong(self, line: int, what: str) -> InputError:
        return InputError(
            f"Expected a row as in the first line, but {self.path} line {line} {what}: mend that "
            "line or remove it.",
            code="format",
        )


def _separator(line: bytes) -> str:
    return max(SEPARATORS, key=lambda sign: line.count(sign.encode()))


def _header(line: bytes, path: Path) -> list[str]:
    try:
        return [name.strip() for name in _cells(line, _separator(line))]
    except (UnicodeDecodeError, csv.Error):
        raise InputError(
            f"Expected UTF-8 text, but the first line of {path} is not: save it as UTF-8 CSV.",
            code="format",
        ) from None


def _is_whole(line: bytes, separator: str, width: int) -> bool:
    """Whether a line has as many cells as the first one."""
    try:
        return len(_cells(line, separator)) == width
    except (UnicodeDecodeError, csv.Error):
        return False


def _cells(line: bytes, separator: str) -> list[str]:
    text = line.decode("utf-8-sig", errors="strict").rstrip("\r\n")
    return next(csv.reader([text], delimiter=separator), [])
