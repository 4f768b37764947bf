"""Patterns of checkpoints' names: ``epoch={epoch}-step={step+1}*.ckpt``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from checkwise.errors import InputError

NUMBERS: Final = ("step", "epoch")
# How many epochs the log has before one: files that count from 0 whatever the log counts from.
INDEX: Final = "index"
_TOKEN: Final = re.compile(
    r"\{(?P<name>[^{}:+-]*)(?P<offset>[+-][0-9]{1,9})?(?::[^{}]*)?\}"
    r"|(?P<star>\*+)|(?P<text>[^{}*]+)|(?P<brace>[{}])"
)
_ANYTHING: Final = "[^/]*"
# A number is a whole run of digits, so that `*` leaves none of it behind.
_NUMBER: Final = r"(?<![0-9])([0-9]+)(?![0-9])"


@dataclass(frozen=True)
class Number:
    """A number in a pattern; in a name it is larger by the offset than in the log."""

    name: str
    offset: int
    is_explicit: bool


@dataclass(frozen=True)
class Pattern:
    """A path whose parts are names as they are, or expressions that match names.

    Args:
        text: the pattern as it was written.
        is_absolute: whether it begins at the root of the file system.
        parts: the parts of the path.
        numbers: the numbers in the order of the groups of all expressions.
    """

    text: str
    is_absolute: bool
    parts: tuple[str | re.Pattern[str], ...]
    numbers: tuple[Number, ...]

    def read(self, digits: Sequence[str]) -> Mapping[str, int] | None:
        """The log's numbers behind those in a name; None where two of one kind differ.

        Example:
            >>> parse("epoch={epoch+1}.pt").read(["003"])
            {'epoch': 2}
        """
        values: dict[str, int] = {}
        for number, text in zip(self.numbers, digits, strict=True):
            value = int(text) - number.offset
            if values.setdefault(number.name, value) != value:
                return None
        return values

    def read_name(self, name: str) -> Mapping[str, int] | None:
        """The log's numbers behind a name; None where it does not match the last part."""
        last = self.parts[-1]
        match = last.fullmatch(name) if isinstance(last, re.Pattern) else None
        return None if match is None else self.read(match.groups())


def parse(text: str, *, known: Sequence[str] = NUMBERS) -> Pattern:
    """Read a pattern.

    Args:
        text: a path with ``{step}`` or ``{epoch}``, an offset as in ``{epoch+1}``, and ``*`` for
            any text within one name. A format as in ``{epoch:02d}`` is ignored: numbers match with
            any leading zeros.
        known: names of the numbers that may stand in it.

    Raises:
        InputError: it names no number, something else, or is no pattern.
    """
    numbers: list[Number] = []
    parts: list[list[str]] = [[]]
    for token in _TOKEN.finditer(text):
        if token["brace"] is not None:
            raise InputError(
                f"Expected {{step}} or {{epoch}} in --checkpoints, but got a brace without its "
                f"other half in {text!r}: close it, or write * for the text around it."
            )
        if token["text"] is not None:
            first, *others = token["text"].split("/")
            parts[-1].append(re.escape(first))
            parts += [[re.escape(name)] for name in others]
        elif token["star"] is not None:
            parts[-1].append(_ANYTHING)
        else:
            numbers.append(_number(token, text, known))
            parts[-1].append(_NUMBER)
    if not numbers:
        raise InputError(
            f"Expected {{step}} or {{epoch}} in --checkpoints, but {text!r} has neither: write it "
            "where the number stands, as in 'checkpoint-{step}' or 'weights.{epoch+1}.keras'."
        )
    if "\0" in text:
        raise InputError(f"Expected a path for --checkpoints, but got {text!r}: leave out \\0.")
    texts = ["".join(part) for part in parts]
    named = tuple(_part(part) for part in texts if part not in ("", re.escape(".")))
    return Pattern(text, text.startswith("/"), named, tuple(numbers))


def _number(token: re.Match[str], text: str, known: Sequence[str]) -> Number:
    name, offset = token["name"], token["offset"]
    if name not in known:
        raise InputError(
            f"Expected {{step}} or {{epoch}} in --checkpoints, but got {token[0]} in {text!r}: "
            "write * where other values stand."
        )
    return Number(name, int(offset or 0), offset is not None)


def _part(expression: str) -> str | re.Pattern[str]:
    if _ANYTHING in expression or _NUMBER in expression:
        return re.compile(expression, re.DOTALL)
    return re.sub(r"\\(.)", r"\1", expression, flags=re.DOTALL)
