"""Reads a TOML table key by key; errors name the key and what it may hold."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.words import is_plain
from checkwise.words import shown as value_shown

LONGEST_NAME = 100
LARGEST_FILE = 1 << 20  # bytes; a study file has a few thousand
LARGEST = 100_000_000  # a larger schedule, width or seed is a typing error


@dataclass(frozen=True)
class StudyKey:
    """One key that a table may have: for the reference page."""

    table: str
    name: str
    wanted: str
    default: str
    means: str


class TomlTable:
    """One table of a study file. Read every key that may be there, then call ``finish``.

    Every call says what the key means and, where the default depends on something else, how the
    reference page shows it (``shown``); ``keys`` collects the keys for that page.
    """

    def __init__(
        self, values: Any, name: str, file: str, keys: list[StudyKey] | None = None
    ) -> None:
        if not isinstance(values, Mapping):
            raise InputError(
                f"Expected a table [{name}], but got {value_shown(values)} in {file}: write "
                f"[{name}] and its keys below it."
            )
        self._values = dict(values)
        self._name = name
        self._file = file
        self._known: list[str] = []
        self._keys = [] if keys is None else keys

    def text(
        self,
        key: str,
        default: str | None = None,
        *,
        means: str,
        among: Sequence[str] | None = None,
        shown: str | None = None,
    ) -> str:
        """A string, one of ``among`` where given."""
        wanted = f"one of {', '.join(among)}" if among is not None else "a string"
        value = self._get(key, default, wanted, means, shown)
        if not isinstance(value, str):
            raise self.refuse(key, "a string", value)
        if among is not None and value not in among:
            raise self.refuse(key, f"one of {', '.join(among)}", value, near(value, among))
        if value and not is_plain(value):
            raise self.refuse(key, "a string on one line without control characters", value)
        return value

    def name(
        self, key: str, default: str | None = None, *, means: str, shown: str | None = None
    ) -> str:
        """A string that can be part of a file's name and of a line."""
        value = self.text(key, default, means=means, shown=shown)
        if not value or len(value) > LONGEST_NAME or "/" in value or "\\" in value:
            raise self.refuse(key, f'a name of 1 to {LONGEST_NAME} characters without "/"', value)
        return value

    def optional_text(self, key: str, *, means: str, shown: str = "none") -> str | None:
        """A string, or None where the key is absent."""
        return self.text(key, "", means=means, shown=shown) or None

    def whole(
        self,
        key: str,
        default: int | None = None,
        *,
        means: str,
        least: int = 0,
        shown: str | None = None,
    ) -> int:
        """An integer of at least ``least``; the default may be smaller, and stands for none."""
        wanted = f"a whole number of at least {least}"
        value = self._get(key, default, wanted, means, shown)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.refuse(key, wanted, value)
        if value < least and self.has(key):
            raise self.refuse(key, wanted, value)
        if value > LARGEST:
            raise self.refuse(key, f"a whole number of at most {LARGEST:,}", value)
        return value

    def number(
        self,
        key: str,
        default: float,
        *,
        means: str,
        above: float,
        below: float,
        ends: bool = False,
        shown: str | None = None,
    ) -> float:
        """A number strictly between two others, or with ``ends`` one of the two."""
        wanted = f"a number {'from' if ends else 'between'} {above:g} {'to' if ends else 'and'} "
        wanted += f"{below:g}"
        value = self._get(key, default, wanted, means, shown)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refuse(key, "a number", value)
        if not (above <= value <= below if ends else above < value < below):
            raise self.refuse(key, wanted, value)
        return float(value)

    def optional_number(
        self, key: str, *, means: str, above: float, below: float, shown: str
    ) -> float | None:
        """A number strictly between two others, or None where the key is absent."""
        middle = (above + below) / 2
        given = key in self._values
        value = self.number(key, middle, means=means, above=above, below=below, shown=shown)
        return value if given else None

    def flag(self, key: str, default: bool, *, means: str, shown: str | None = None) -> bool:
        """true or false."""
        value = self._get(key, default, "true or false", means, shown)
        if not isinstance(value, bool):
            raise self.refuse(key, "true or false", value)
        return value

    def seeds(self, key: str, default: Sequence[int], *, means: str) -> tuple[int, ...]:
        """A list of different whole numbers."""
        wanted = "a list of different whole numbers, such as [0, 1, 2]"
        value = self._get(key, list(default), wanted, means)
        fits = isinstance(value, list) and all(
            type(seed) is int and 0 <= seed <= LARGEST for seed in value
        )
        if not fits or not value or len(set(value)) != len(value):
            raise self.refuse(key, wanted, value)
        return tuple(value)

    def names(
        self,
        key: str,
        default: Sequence[str] | None = None,
        *,
        means: str,
        among: Sequence[str],
        others: str = "",
    ) -> tuple[str, ...]:
        """A list of different names, each of ``among``; empty only where that is the default.

        ``others`` goes before the advice where a name is not among these.
        """
        wanted = f"a list of different names among {', '.join(among)}"
        value = self._get(key, None if default is None else list(default), wanted, means)
        if default is not None and value == []:
            return ()
        different = isinstance(value, list) and len(set(map(value_shown, value))) == len(value)
        if not different or not value:
            raise self.refuse(key, wanted, value)
        for name in value:
            if name not in among:
                advice = " or ".join(filter(None, (others, near(name, among))))
                raise self.refuse(key, f"names among {', '.join(among)}", name, advice)
        return tuple(value)

    def has(self, key: str) -> bool:
        """Whether the file has the key."""
        return key in self._values

    def raw(self, key: str, default: Any = None) -> Any:
        """The value as it is, for a table that is read by itself."""
        self._known.append(key)
        return self._values.get(key, default)

    def described(self, key: str, wanted: str, *, means: str, shown: str | None = None) -> Any:
        """The value as it is; the caller checks it."""
        return self._get(key, None, wanted, means, shown)

    def finish(self) -> None:
        """Refuse keys that were not read."""
        for key in self._values:
            if key not in self._known:
                raise InputError(
                    f"Expected keys among {', '.join(self._known)} in [{self._name}], but got "
                    f"{value_shown(key)} in {self._file}: {ended(near(key, self._known))}",
                    code="unknown",
                )

    def refuse(
        self, key: str, wanted: str, value: object, advice: str = "correct it"
    ) -> InputError:
        """The error for a value that does not fit."""
        got = "nothing" if value is None else value_shown(value)
        where = f"`{key}` of [{self._name}]" if self._name else f"`{key}`"
        if value is None:
            advice = "add it"
        return InputError(
            f"Expected {where} to be {wanted}, but got {got} in {self._file}: {ended(advice)}"
        )

    def _get(
        self, key: str, default: Any, wanted: str, means: str, shown: str | None = None
    ) -> Any:
        if shown is None:
            shown = "required" if default is None else json.dumps(default)
        self._keys.append(StudyKey(self._name, key, wanted, shown, means))
        self._known.append(key)
        return self._values.get(key, default)


def read_toml(path: Path, what: str = "a study file") -> dict[str, Any]:
    """The values of a file in TOML; ``what`` it should be, for the error where it is not."""
    try:
        with path.open("rb") as opened:
            content = opened.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise ValueError(f"more than {LARGEST_FILE >> 20} MiB")
        return tomllib.loads(content.decode())
    # Also an integer of thousands of digits, or brackets that are nested too deep.
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:120]
        raise InputError(
            f"Expected {what} in TOML, but got: {reason} in {path}: correct it.",
            code="format",
        ) from None


def near(name: object, known: Iterable[str]) -> str:
    """Advice that names the nearest known name."""
    text = name if isinstance(name, str) else value_shown(name)
    nearest = difflib.get_close_matches(text[:LONGEST_NAME], list(known), n=1)
    return f"did you mean {nearest[0]!r}?" if nearest else "remove or correct it"


def ended(advice: str) -> str:
    """Advice as the end of a sentence.

    >>> ended("add it"), ended("did you mean 'steps'?")
    ('add it.', "did you mean 'steps'?")
    """
    return advice if advice.endswith("?") else f"{advice}."
