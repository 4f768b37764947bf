"""CSV logs: Lightning, Keras, timm, Ultralytics, fastai, W&B's history, and anybody's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.readers.columns import has_validation
from checkwise.readers.csv_file import header_of, open_csv_file
from checkwise.readers.log import Log
from checkwise.readers.request import Request
from checkwise.readers.rows import has_axis, log_of_rows, trainer_of


def is_log(path: Path) -> bool:
    """Whether a file's first line names steps or epochs and a validation accuracy or loss."""
    try:
        header = header_of(path)
    except InputError:
        return False
    return has_axis(header) and has_validation(header, trainer_of(header))


def open_logs(path: Path, request: Request) -> list[Log]:
    """The log in a file; its cells are read when columns are asked for."""
    file = open_csv_file(path, may_be_torn=True)
    repeated = sorted(name for name, times in Counter(file.header).items() if name and times > 1)
    if repeated:
        raise InputError(
            f"Column {repeated[0]!r} appears twice in {path}: keep one of them.", code="ambiguous"
        )
    named = [name for name in file.header if name]
    header = [name or f"column {place}" for place, name in enumerate(file.header, start=1)]
    places = {name: place for place, name in reversed([*enumerate(header)])}

    def rows(names: Sequence[str]) -> Iterator[Sequence[Any]]:
        wanted = [places[name] for name in names]
        for row in file.rows():
            if row != file.header:  # which may have been written again
                yield [row[place] for place in wanted]

    notes = ("the last line was cut off and is not read",) if file.is_torn else ()
    unnamed = sorted(set(header) - set(named))
    trainer = trainer_of(named)
    return [log_of_rows(path, trainer, named, rows, request, beside=unnamed, notes=notes)]
