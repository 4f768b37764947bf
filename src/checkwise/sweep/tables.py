"""Reading a TOML table key by key; what does not fit is refused by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from checkwise.errors import InputError

LARGEST = 100_000_000  # no schedule, width or seed is larger; a slip of the key is


class Table:
    """One table of a study file. Ask for every key that may be there, then call ``finish``."""

    def __init__(self, values: Any, name: str, file: str) -> None:
        if not isinstance(values, Mapping):
            raise InputError(
                f"Expected a table [{name}], but got {values!r:.60} in {file}: write [{name}] and "
                "its keys below it."
            )
        self._values = dict(values)
        self._name = name
        self._file = file
        self._known: list[str] = []

    def text(
        self, key: str, default: str | None = None, *, among: Sequence[str] | None = None
    ) -> str:
        """A string, one of ``among`` where given."""
        value = self._get(key, default)
        if not isinstance(value, str):
            raise self.refuse(key, "a string", value)
        if among is not None and value not in among:
            raise self.refuse(key, f"one of {', '.join(among)}", value, near(value, among))
        return value

    def optional_text(self, key: str) -> str | None:
        """A string, or None where the key is absent."""
        return None if self._get(key, "") == "" else self.text(key)

    def whole(self, key: str, default: int | None = None, *, least: int = 0) -> int:
        """An integer of at least ``least``."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.refuse(key, f"a whole number of at least {least}", value)
        if value > LARGEST:
            raise self.refuse(key, f"a whole number of at most {LARGEST:,}", value)
        return value

    def number(self, key: str, default: float, *, above: float, below: float) -> float:
        """A number strictly between two others."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refuse(key, "a number", value)
        if not above < value < below:
            raise self.refuse(key, f"a number between {above:g} and {below:g}", value)
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """true or false."""
        value = self._get(key, default)
        if not isinstance(value, bool):
            raise self.refuse(key, "true or false", value)
        return value

    def seeds(self, key: str, default: Sequence[int]) -> tuple[int, ...]:
        """A list of unlike whole numbers."""
        value = self._get(key, list(default))
        fits = isinstance(value, list) and all(type(v) is int and v >= 0 for v in value)
        if not fits or not value or len(set(value)) != len(value):
            raise self.refuse(key, "a list of different whole numbers, such as [0, 1, 2]", value)
        return tuple(value)

    def names(self, key: str, *, among: Sequence[str]) -> tuple[str, ...]:
        """A list of different names, each one of ``among``."""
        value = self._get(key, None)
        if not isinstance(value, list) or not value or len(set(map(str, value))) != len(value):
            raise self.refuse(key, f"a list of different names among {', '.join(among)}", value)
        for name in value:
            if name not in among:
                raise self.refuse(key, f"names among {', '.join(among)}", name, near(name, among))
        return tuple(value)

    def raw(self, key: str, default: Any = None) -> Any:
        """Whatever stands there."""
        return self._get(key, default)

    def finish(self) -> None:
        """Refuse keys that nobody asked for."""
        for key in self._values:
            if key not in self._known:
                raise InputError(
                    f"Expected keys among {', '.join(self._known)} in [{self._name}], but got "
                    f"{key!r} in {self._file}: {near(key, self._known)}."
                )

    def refuse(
        self, key: str, wanted: str, value: object, advice: str = "correct it"
    ) -> InputError:
        """The error for a value that does not fit."""
        found = "nothing" if value is None else f"{value!r:.60}"
        where = f"`{key}` of [{self._name}]" if self._name else f"`{key}`"
        if value is None:
            advice = "add it"
        return InputError(
            f"Expected {where} to be {wanted}, but got {found} in {self._file}: {advice}."
        )

    def _get(self, key: str, default: Any) -> Any:
        self._known.append(key)
        return self._values.get(key, default)


def near(name: object, known: Iterable[str]) -> str:
    """Advice that names the nearest known name."""
    found = difflib.get_close_matches(str(name), list(known), n=1)
    return f"did you mean {found[0]!r}?" if found else "remove or correct it"
