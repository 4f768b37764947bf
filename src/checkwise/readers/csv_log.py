"""CSV: tables under checkwise's names, and logs of Lightning, Keras, timm and many others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.readers import tables
from checkwise.readers.columns import has_validation
from checkwise.readers.csv_file import header_of, open_csv_file
from checkwise.readers.log import Log
from checkwise.readers.request import LoadedRun, Request
from checkwise.readers.rows import has_axis, is_tidy, log_of_rows, trainer_of


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
