"""Other logs whose run the checkpoints beside a log may be of."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from checkwise.errors import InputError
from checkwise.readers.checkpoints.folders import above, names_in
from checkwise.readers.logs import csv_log, json_log

_TABLES: Final = (".csv", ".log", ".tsv", ".txt")
_JSON: Final = ".json"


def has_neighbours(log_path: Path, base: Path) -> bool:
    """Whether folders beside the log's hold logs as well, whose checkpoints could be confused."""
    start = "events" if log_path.is_dir() else log_path.name.split(".")[0]
    try:
        return any(
            name.split(".")[0] == start
            for folder in names_in(above(base))
            if not (above(base) / folder).samefile(base)
            for name in names_in(above(base) / folder)
        )
    except (InputError, OSError):
        return True


def another_log(folder: Path, log_path: Path) -> Path | None:
    """The first other log in a folder whose trainer saves checkpoints there."""
    try:
        files = [folder / name for name in names_in(folder)]
    except InputError:
        return None
    return next((file for file in files if file != log_path and _saves(file)), None)


def _saves(path: Path) -> bool:
    suffix = path.suffix.lower()
    try:
        if not path.is_file():
            return False
        if suffix == _JSON:
            return json_log.recognises_file(path)
        if suffix not in _TABLES or not csv_log.recognises(path):
            return False
        return bool(csv_log.trainer_of(csv_log.header_of(path)).folders)
    except (InputError, OSError):
        return False
