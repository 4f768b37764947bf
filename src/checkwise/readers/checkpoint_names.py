"""Numbers in checkpoints' names, by patterns such as ``epoch={epoch}-step={step+1}*.ckpt``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from checkwise.errors import InputError
from checkwise.readers import request
from checkwise.words import shown

MOST_NAMES: Final = 100_000  # in one folder
MOST_FOLDERS: Final = 10_000  # that one pattern may lead through
_INCOMPLETE: Final = "checkpoint-is-incomplete.txt"  # transformers, while it saves before a stop
_NO_WEIGHTS: Final = "trainer_state.json"
# Not within braces, where {val/loss} is one name.
_SLASH: Final = re.compile(r"/(?![^{}]*\})")
_TOKEN: Final = re.compile(
    r"\{(?P<name>[^{}:+-]*)(?P<offset>[+-][0-9]{1,9})?(?::[^{}]*)?\}"
    r"|(?P<star>\*+)|(?P<text>[^{}*]+)|(?P<brace>[{}])"
)
# A number is a whole run of digits, so that `*` leaves none of it behind.
_NUMBER: Final = r"(?<![0-9])([0-9]+)(?![0-9])"


class Numbered(NamedTuple):
    """A checkpoint, its numbers as the log counts them, and how much more its name says."""

    path: str
    numbers: Mapping[str, int]
    offsets: Mapping[str, int]


@dataclass(frozen=True)
class Pattern:
    """A path whose parts are names as they are, or expressions that match names.

    Args:
        text: the pattern as it was written.
        is_absolute: whether it begins at the root of the file system.
        parts: the parts of the path.
        numbers: name and offset of each number, in the order of the groups of all expressions; no
            offset where none is written.
    """

    text: str
    is_absolute: bool
    parts: tuple[str | re.Pattern[str], ...]
    numbers: tuple[tuple[str, int | None], ...]

    @property
    def offsets(self) -> Mapping[str, int]:
        """How much more a name says than the log, by number."""
        return {name: offset or 0 for name, offset in self.numbers}

    def read(self, digits: Sequence[str]) -> Mapping[str, int] | None:
        """The log's numbers behind those in a name; None where two of one kind differ.

        Example:
            >>> parse("epoch={epoch+1}.pt").read(["003"])
            {'epoch': 2}
        """
        values: dict[str, int] = {}
        for (name, offset), text in zip(self.numbers, digits, strict=True):
            value = int(text) - (offset or 0)
            if values.setdefault(name, value) != value:
                return None
        return values

    def read_name(self, name: str) -> Mapping[str, int] | None:
        """The log's numbers behind a name; None where it does not match the last part."""
        last = self.parts[-1]
        match = last.fullmatch(name) if isinstance(last, re.Pattern) else None
        return None if match is None else self.read(match.groups())


def parse(text: str) -> Pattern:
    """Read a pattern.

    Args:
        text: a path with ``{step}`` or ``{epoch}``, an offset as in ``{epoch+1}``, and ``*`` for
            any text within one name. A format as in ``{epoch:02d}`` is ignored: numbers match with
            any leading zeros.

    Raises:
        InputError: it names no number, something else, or is no pattern.
    """
    numbers: list[tuple[str, int | None]] = []

    def expression(token: re.Match[str]) -> str:
        if token["brace"] is not None:
            raise InputError(
                f"Expected {{step}} or {{epoch}} in --checkpoints, but got a brace without its "
                f"other half in {text!r}: close it, or write * for the text around it."
            )
        if token["text"] is not None:
            return re.escape(token["text"])
        if token["star"] is not None:
            return "[^/]*"
        if token["name"] not in ("step", "epoch"):
            raise InputError(
                f"Expected {{step}} or {{epoch}} in --checkpoints, but got {token[0]} in {text!r}: "
                "write * where other values stand."
            )
        numbers.append((token["name"], int(token["offset"]) if token["offset"] else None))
        return _NUMBER

    parts = tuple(
        re.compile(_TOKEN.sub(expression, part), re.DOTALL) if re.search(r"[{}*]", part) else part
        for part in _SLASH.split(text)
        if part not in ("", ".")
    )
    if not numbers:
        raise InputError(
            f"Expected {{step}} or {{epoch}} in --checkpoints, but {text!r} has neither: write it "
            "where the number stands, as in 'checkpoint-{step}' or 'weights.{epoch+1}.keras'."
        )
    if "\0" in text:
        raise InputError(f"Expected a path for --checkpoints, but got {text!r}: leave out \\0.")
    return Pattern(text, text.startswith("/"), parts, tuple(numbers))


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


def is_whole(path: Path) -> bool:
    """Whether a checkpoint is there: a file, or a folder with more in it than a log."""
    if os.path.isfile(path):
        return True
    names = set(request.names_in(path))
    return _INCOMPLETE not in names and names > names & {_NO_WEIGHTS}


def matching(pattern: Pattern, base: Path) -> list[Numbered]:
    """Every checkpoint below a folder that a pattern matches, sorted by path.

    Raises:
        InputError: a folder cannot be listed, or the pattern leads through too many.
    """
    found: list[tuple[Path, tuple[str, ...]]] = [(Path("/") if pattern.is_absolute else base, ())]
    for part in pattern.parts:
        if len(found) > MOST_FOLDERS:
            raise InputError(
                f"Expected --checkpoints to lead through at most {MOST_FOLDERS:,} folders, but "
                f"{shown(pattern.text)} leads through more: name the folder of this run.",
                code="unsupported",
            )
        if isinstance(part, str):
            found = [(folder / part, digits) for folder, digits in found]
            continue
        found = [
            (folder / name, (*digits, *match.groups()))
            for folder, digits in found
            for name in names_in(folder)
            if (match := part.fullmatch(name))
        ]
    return [
        Numbered(str(path), numbers, pattern.offsets)
        for path, digits in found
        if (numbers := pattern.read(digits)) is not None and is_whole(path)
    ]
