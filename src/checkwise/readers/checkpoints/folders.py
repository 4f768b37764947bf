"""Folders of checkpoints: what is in them, by name. No checkpoint is ever opened."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from checkwise.errors import InputError
from checkwise.readers.checkpoints.patterns import Pattern
from checkwise.text import shown

MOST_NAMES: Final = 100_000  # in one folder
MOST_FOLDERS: Final = 10_000  # that one pattern may lead through
INCOMPLETE: Final = "checkpoint-is-incomplete.txt"  # transformers, while it saves before a stop
_NO_WEIGHTS: Final = "trainer_state.json"


@dataclass(frozen=True)
class Numbered:
    """A checkpoint whose name carries numbers of the log: ``{"step": 500}``."""

    path: str
    numbers: Mapping[str, int]


def names_in(folder: Path) -> list[str]:
    """The names in a folder, sorted, without hidden ones; none where there is no folder.

    Raises:
        InputError: it cannot be listed, or holds too many names.
    """
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, MOST_NAMES + 1)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise InputError(
            f"Expected a folder of checkpoints, but {folder} cannot be listed "
            f"({error.strerror}): check its permissions.",
            code="system",
        ) from None
    if len(names) > MOST_NAMES:
        raise InputError(
            f"Expected at most {MOST_NAMES:,} names in a folder of checkpoints, but {folder} has "
            "more: move the checkpoints of this run into a folder of their own.",
            code="unsupported",
        )
    return sorted(name for name in names if not name.startswith("."))


def above(folder: Path) -> Path:
    """The folder around a folder, without a look behind links where none is needed."""
    is_plain = folder.name not in ("", "..") and not folder.is_symlink()
    return folder.parent if is_plain else folder.resolve().parent


def is_whole(path: Path) -> bool:
    """Whether a checkpoint is there: a file, or a folder with more in it than a log."""
    if os.path.isfile(path):
        return True
    try:
        with os.scandir(path) as entries:
            names = [entry.name for entry in islice(entries, MOST_NAMES)]
    except (OSError, ValueError):  # a name that no file can have
        return False
    return INCOMPLETE not in names and any(name != _NO_WEIGHTS for name in names)


def matching(pattern: Pattern, base: Path) -> list[Numbered]:
    """Every checkpoint below a folder that a pattern matches, sorted by path.

    Raises:
        InputError: a folder cannot be listed, or the pattern leads through too many.
    """
    start = Path("/") if pattern.is_absolute else base
    files = []
    for path, digits in _walk(pattern, start):
        numbers = pattern.read(digits)
        if numbers is not None and is_whole(path):
            files.append(Numbered(str(path), numbers))
    return files


def named_folder(pattern: Pattern, base: Path) -> Path:
    """The folder that the pattern's names without ``*`` or numbers lead to."""
    folder = Path("/") if pattern.is_absolute else base
    for part in pattern.parts[:-1]:
        if isinstance(part, re.Pattern):
            break
        folder /= part
    return folder


def _walk(pattern: Pattern, start: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """The paths that the parts of a pattern match, with the digits in them."""
    waiting: list[tuple[Path, tuple[str, ...]]] = [(start, ())]
    for part in pattern.parts:
        if len(waiting) > MOST_FOLDERS:
            raise InputError(
                f"Expected --checkpoints to lead through at most {MOST_FOLDERS:,} folders, but "
                f"{shown(pattern.text)} leads through more: name the folder of this run.",
                code="unsupported",
            )
        if isinstance(part, str):
            waiting = [(folder / part, digits) for folder, digits in waiting]
            continue
        waiting = [
            (folder / name, (*digits, *match.groups()))
            for folder, digits in waiting
            for name in names_in(folder)
            if (match := part.fullmatch(name))
        ]
    yield from waiting
