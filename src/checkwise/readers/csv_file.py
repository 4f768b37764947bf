"""Comma-, semicolon- or tab-separated values: tables under checkwise's names, trainers' logs."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.readers.columns import has_validation
from checkwise.readers.log import Log
from checkwise.readers.request import LoadedRun, Request, opened, size_of
from checkwise.readers.rows import has_axis, is_tidy, log_of_rows, trainer_of

SEPARATORS = (",", ";", "\t")
LONGEST_LINE = 1 << 20  # bytes of a first or last line; a chart of a thousand runs has 400,000


@dataclass(frozen=True)
class CsvFile:
    """A file as it was when it was opened; a training that goes on may append to it."""

    path: Path
    header: list[str]
    separator: str
    size: int  # bytes that are read
    is_torn: bool = False  # whether a last line that lacks cells is left out

    def rows(self) -> Iterator[list[str]]:
        """The cells of every row after the first, without the space around them."""
        width = len(self.header)
        lines = csv.reader(self._lines(), delimiter=self.separator, strict=True)
        try:
            next(lines, None)
            for row in lines:
                if len(row) == width:
                    yield [cell.strip() for cell in row]
                elif row:
                    what = f"{width} cells as in the first line"
                    raise self._wrong(what, lines.line_num, f"has {len(row)}")
        except csv.Error as error:
            raise self._wrong("values", lines.line_num, f"cannot be read ({error})") from None
        except UnicodeDecodeError:
            raise self._wrong("UTF-8 text", lines.line_num + 1, "is something else") from None

    def _lines(self) -> Iterator[str]:
        left, encoding = self.size, "utf-8-sig"
        with opened(self.path) as file:
            while line := file.readline(left):
                left -= len(line)
                yield line.decode(encoding)
                encoding = "utf-8"

    def _wrong(self, expected: str, line: int, came: str) -> InputError:
        return InputError(
            f"Expected {expected}, but {self.path} line {line} {came}: mend that line or remove "
            "it.",
            code="format",
        )


def header_of(path: Path, separators: Sequence[str] = SEPARATORS) -> list[str]:
    """The columns that the first line of a file names."""
    return _first_line(path, separators)[0]


def open_csv_file(
    path: Path, separators: Sequence[str] = SEPARATORS, *, may_be_torn: bool = False
) -> CsvFile:
    """A file by its first line, and without its last one where a killed process left half of it."""
    (header, separator), size = _first_line(path, separators), size_of(path)
    with opened(path) as file:
        file.seek(max(0, size - LONGEST_LINE))
        last = file.read(LONGEST_LINE) if may_be_torn else b""
    line = last[last.rfind(b"\n") + 1 :]
    if not line or line == last or _is_whole(line, separator, len(header)):
        return CsvFile(path, header, separator, size)
    return CsvFile(path, header, separator, size - len(line), is_torn=True)


def _first_line(path: Path, separators: Sequence[str]) -> tuple[list[str], str]:
    """The names in a file's first line, and what stands between them."""
    with opened(path) as file:
        line = file.readline(LONGEST_LINE)
    separator = max(separators, key=lambda sign: line.count(sign.encode()))
    try:
        return [name.strip() for name in _cells(line, separator)], separator
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
    return next(csv.reader([line.decode("utf-8-sig").rstrip("\r\n")], delimiter=separator), [])


def recognises(path: Path) -> bool:
    """Whether a file is a table, by its name or by the names of its columns."""
    return path.is_file() and (path.suffix.lower() in (".csv", ".tsv") or is_log(path))


def is_log(path: Path) -> bool:
    """Whether a file's first line names steps or epochs and a validation accuracy or loss."""
    try:
        header = header_of(path)
    except InputError:
        return False
    return has_axis(header) and has_validation(header, trainer_of(header))


def read(path: Path, request: Request) -> list[LoadedRun] | list[Log]:
    """The runs of a table, or the one log of a trainer."""
    if is_tidy(header_of(path), request):
        from checkwise.readers import tables  # which a log need not

        return tables.read(tables.open_csv(path, request), request)
    if {"params", "mean_fit_time"} <= set(header_of(path)):
        raise InputError(
            f"Expected a log of a training, but {path} holds results of a grid search of "
            "scikit-learn, a row for each candidate: choose in the search itself, with "
            "refit=near_best(…) of checkwise.integrations.sklearn.",
            code="unsupported",
        )
    return [_log(path, request)]


def _log(path: Path, request: Request) -> Log:
    """The log in a file; its cells are read when columns are asked for."""
    file = open_csv_file(path, may_be_torn=True)
    repeated = sorted(name for name, times in Counter(file.header).items() if name and times > 1)
    if repeated:
        raise InputError(
            f"Column {repeated[0]!r} appears twice in {path}: keep one of them.", code="ambiguous"
        )
    names = [name or f"column {place}" for place, name in enumerate(file.header, start=1)]
    places = {name: place for place, name in reversed([*enumerate(names)])}

    def rows(wanted: Sequence[str]) -> Iterator[Sequence[Any]]:
        at = [places[name] for name in wanted]
        for row in file.rows():
            if row != file.header:  # which may have been written again
                yield [row[place] for place in at]

    named = [name for name in file.header if name]
    unnamed = sorted(set(names) - set(named))
    notes = ("the last line was cut off and is not read",) if file.is_torn else ()
    return log_of_rows(path, named, rows, request, beside=unnamed, notes=notes)
