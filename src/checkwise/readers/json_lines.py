"""Files of JSON lines, also those that a killed process left with a torn last line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from checkwise.errors import InputError
from checkwise.readers.request import read_bytes
from checkwise.words import shown


class Line(NamedTuple):
    """One record and the line of the file it stands on."""

    number: int
    fields: dict[str, Any]


class NoRecordsError(InputError):
    """A log without one complete record: a run that has only just started."""


def parsed(text: str | bytes, where: object) -> Any:
    """The value of a JSON text, in which no object may have a key twice.

    Raises:
        InputError: a key stands twice, so that another reader may see another value.
        ValueError: it is not JSON.
    """

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


def read_lines(path: Path) -> tuple[list[Line], tuple[str, ...]]:
    """Every record of a file, and a note when its last line was cut off.

    Any other line that is not JSON is refused.
    """
    # Split on newlines only; str.splitlines would also cut at U+2028 inside a string.
    raw = _decoded(path).split("\n")
    filled = [index for index, text in enumerate(raw) if text and not text.isspace()]
    lines: list[Line] = []
    notes: tuple[str, ...] = ()
    for index in filled:
        try:
            fields = parsed(raw[index], f"{path} line {index + 1}")
        except InputError:
            raise
        # Also an integer of thousands of digits, or brackets nested too deep to follow.
        except (ValueError, RecursionError):
            if index == filled[0] and len(filled) > 1 and _is_json("\n".join(raw)):
                raise InputError(
                    f"Expected one JSON record per line, but {path} is one JSON value over several "
                    "lines: write a line for each record, as pandas does with "
                    "to_json(path, orient='records', lines=True).",
                    code="format",
                ) from None
            if index != filled[-1]:
                raise InputError(
                    f"Expected one JSON record per line, but {path} line {index + 1} is not JSON: "
                    "if a run was cut off there and started again, remove that line.",
                    code="format",
                ) from None
            notes = (f"the last line ({index + 1}) was cut off and is not read",)
            break
        if not isinstance(fields, dict):
            raise InputError(
                f"Expected one JSON object per line, but {path} line {index + 1} holds "
                f"{type(fields).__name__} {raw[index]:.40}: give one record per line.",
                code="format",
            )
        lines.append(Line(index + 1, fields))
    if not lines:
        raise NoRecordsError(
            f"Expected one JSON record per line, but {path} holds no complete record: "
            "wait for the first checkpoint, or check that this is the right file.",
            code="empty",
        )
    return lines, notes


def _is_json(text: str) -> bool:
    try:
        json.loads(text)  # only asks whether it is
    except (ValueError, RecursionError):
        return False
    return True


def _decoded(path: Path) -> str:
    data = read_bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        last_line = data.rstrip(b"\n").rfind(b"\n") + 1
        if last_line and error.start >= last_line:
            # A character cut in two: leave a line that cannot parse, to be reported as torn.
            return data[:last_line].decode("utf-8-sig") + "{"
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"Expected UTF-8 text, but {path} line {line} is something else: "
            "save the file as UTF-8.",
            code="format",
        ) from None


def flattened(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Nested fields under names with slashes.

    Example:
        >>> flattened({"val": {"acc": 0.5, "loss": {"ce": 1.0}}, "lr": 0.1})
        {'lr': 0.1, 'val/acc': 0.5, 'val/loss/ce': 1.0}
    """
    flat: dict[str, Any] = {}
    waiting: list[tuple[str, Mapping[str, Any]]] = [("", fields)]
    for prefix, level in waiting:  # grows while it is read: a record may nest deeper than calls may
        for name, value in level.items():
            if isinstance(value, Mapping):
                waiting.append((f"{prefix}{name}/", value))
            else:
                flat[f"{prefix}{name}"] = value
    return flat


def number(line: Line, name: str, path: Path, fields: dict[str, Any] | None = None) -> float:
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


def whole(line: Line, name: str, path: Path, fields: dict[str, Any] | None = None) -> int:
    """A field as a whole number of 0 or more."""
    value = number(line, name, path, fields)
    if not 0 <= value < 2**53 or value != int(value):
        raise InputError(
            f"Expected a whole number of 0 or more as {name}, but got {value:g} in {path} "
            f"line {line.number}: remove that record.",
            code="format",
        )
    return int(value)
