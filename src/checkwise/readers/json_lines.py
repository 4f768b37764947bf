"""Files of JSON lines, also those that a killed process left with a torn last line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from checkwise.errors import InputError
from checkwise.readers.request import NoRecordsError, opened, size_of
from checkwise.words import shown


class Line(NamedTuple):
    """One record and the line of the file it stands on."""

    number: int
    fields: dict[str, Any]


def parsed(text: str | bytes, where: object) -> Any:
    """The value of a JSON text, in which no object may have a key twice."""

    def fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
            raise InputError(
                f"Expected every key of a JSON object once, but {where} has {shown(twice)} twice: "
                "keep the one that counts.",
                code="ambiguous",
            )
        return found

    return json.loads(text, object_pairs_hook=fields)


def parsed_or_none(text: str | bytes, where: object) -> Any:
    """The value of a JSON text, in which no object may have a key twice; None where it is none."""
    try:
        return parsed(text, where)
    # Also an integer of thousands of digits, or brackets nested too deep to follow.
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        return None


class JsonLines:
    """The records of a file as it was when it was opened; every reading begins at the first.

    Attributes:
        notes: after a reading, that the last line was cut off and left out.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.size = path, size_of(path)
        self.notes: tuple[str, ...] = ()
        self._is_checked = False  # for keys that stand twice

    def __iter__(self) -> Generator[Line]:
        # An error that is kept would keep the file open.
        with closing(self._texts()) as texts:
            yield from self._lines(texts)

    def _lines(self, texts: Iterator[tuple[int, bytes]]) -> Iterator[Line]:
        is_first = True
        for number, text in texts:
            where = f"{self.path} line {number}"
            try:
                decoded = text.decode("utf-8-sig" if number == 1 else "utf-8")
                fields = json.loads(decoded) if self._is_checked else parsed(decoded, where)
            except InputError:
                raise
            # Also an integer of thousands of digits, or brackets nested too deep to follow.
            except (ValueError, RecursionError) as error:
                is_last = next(texts, None) is None
                if not is_last or (number == 1 and isinstance(error, UnicodeDecodeError)):
                    raise self._no_record(where, error, is_first=is_first) from None
                self.notes = (f"the last line ({number}) was cut off and is not read",)
                break
            if not isinstance(fields, dict):
                raise InputError(
                    f"Expected one JSON object per line, but {where} holds {type(fields).__name__} "
                    f"{text.decode():.40}: give one record per line.",
                    code="format",
                )
            is_first = False
            yield Line(number, fields)
        self._is_checked = True
        if is_first:
            raise NoRecordsError(
                f"Expected one JSON record per line, but {self.path} holds no complete record: "
                "it is cut off, empty as yet, or of another kind.",
                code="empty",
            )

    def _texts(self) -> Generator[tuple[int, bytes]]:
        """Every line with something in it, and its number."""
        number, left = 0, self.size
        with opened(self.path) as file:
            while text := file.readline(left):
                number, left = number + 1, left - len(text)
                if text.strip():
                    yield number, text.rstrip(b"\r\n")

    def _no_record(self, where: str, error: Exception, *, is_first: bool) -> InputError:
        if isinstance(error, UnicodeDecodeError):
            found = "Expected UTF-8 text, but {} is something else: save the file as UTF-8."
        elif is_first:
            found = (
                "Expected one JSON record per line, but {} is none: write a line for each record, "
                "as pandas does with to_json(path, orient='records', lines=True)."
            )
        else:
            found = (
                "Expected one JSON record per line, but {} is not JSON: if a run was cut off there "
                "and started again, remove that line."
            )
        return InputError(found.format(where), code="format")


def read_lines(path: Path) -> tuple[list[Line], tuple[str, ...]]:
    """Every record of a file, and a note when its last line was cut off."""
    lines = JsonLines(path)
    return list(lines), lines.notes


def flattened(fields: Mapping[str, Any], where: object = "a record") -> dict[str, Any]:
    """Nested fields under names with slashes; refused where two come to one name and differ."""
    flat: dict[str, Any] = {}
    waiting: list[tuple[str, Mapping[str, Any]]] = [("", fields)]
    for prefix, level in waiting:  # grows while it is read: a record may nest deeper than calls may
        for name, value in level.items():
            full = f"{prefix}{name}"
            if isinstance(value, Mapping):
                waiting.append((f"{full}/", value))
            elif full in flat and repr(flat[full]) != repr(value) and flat[full] != value:
                raise InputError(
                    f"Expected {shown(full)} once, but {where} has {shown(flat[full])}, nested or "
                    f"by that name, and {shown(value)}: keep the one that counts.",
                    code="ambiguous",
                )
            else:
                flat.setdefault(full, value)
    return flat


def number(line: Line, name: str, path: Path, fields: Mapping[str, Any] | None = None) -> float:
    """A field as a float; an error names the line and the field."""
    value = (line.fields if fields is None else fields).get(name)
    if type(value) is float:
        return value
    if type(value) is int and abs(value) < 2**53:
        return float(value)
    came = "nothing" if value is None else repr(value)[:40]
    raise InputError(
        f"Expected a number as {name}, but got {came} in {path} line {line.number}: "
        "remove that record, or log it at every step.",
        code="format",
    )


def whole(line: Line, name: str, path: Path, fields: Mapping[str, Any] | None = None) -> int:
    """A field as a whole number of 0 or more."""
    value = number(line, name, path, fields)
    if not 0 <= value < 2**53 or value != int(value):
        raise InputError(
            f"Expected a whole number of 0 or more as {name}, but got {value:g} in {path} "
            f"line {line.number}: remove that record.",
            code="format",
        )
    return int(value)
