"""Tables of a TOML file. A schema of keys drives what is read, messages and the reference page."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from checkwise.errors import InputError
from checkwise.words import is_plain
from checkwise.words import shown as value_shown

LONGEST_NAME = 100
LARGEST_FILE = 1 << 20  # bytes; a study file has a few thousand
LARGEST = 100_000_000  # a larger schedule, width or seed is a typing error
REQUIRED: Final = object()


class UnfitError(Exception):
    """A value, or a part of it, that a key may not have; ``advice`` is what to do."""

    def __init__(self, value: object, advice: str = "correct it") -> None:
        super().__init__(value, advice)
        self.value = value
        self.advice = advice


@dataclass(frozen=True)
class Kind:
    """What a key may hold: in words, and a function that returns the value as it is used."""

    wanted: Callable[[], str]
    read: Callable[[Any], Any]


@dataclass(frozen=True)
class StudyKey:
    """A key of a table. ``shown`` is how the reference page puts a default that depends."""

    name: str
    kind: Kind
    means: str
    default: Any = REQUIRED
    shown: str | None = None

    @property
    def default_shown(self) -> str:
        """The default for the reference page."""
        if self.shown is not None or self.default is None:
            return self.shown or "none"
        return "required" if self.default is REQUIRED else json.dumps(self.default)


def a_kind(
    wanted: str, fits: Callable[[Any], bool], read: Callable[[Any], Any] | None = None
) -> Kind:
    """Values that pass a test, as they are or as ``read`` returns them."""

    def checked(value: Any) -> Any:
        if not fits(value):
            raise UnfitError(value)
        return value if read is None else read(value)

    return Kind(lambda: wanted, checked)


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and (not value or is_plain(value))


def _is_name(value: Any) -> bool:
    return _is_line(value) and 0 < len(value) <= LONGEST_NAME and not {"/", "\\"} & set(value)


TEXT = a_kind("a string", _is_line)
OPTIONAL = a_kind("a string", _is_line, lambda value: value or None)
NAME = a_kind(f'a name of 1 to {LONGEST_NAME} characters without "/"', _is_name)
FLAG = a_kind("true or false", lambda value: isinstance(value, bool))


def one_of(among: Callable[[], Sequence[str]]) -> Kind:
    """One of some names."""

    def read(value: Any) -> Any:
        if not isinstance(value, str) or value not in among():
            raise UnfitError(value, near(value, among()))
        return value

    return Kind(lambda: f"one of {', '.join(among())}", read)


def names(among: Callable[[], Sequence[str]], *, empty: bool = False, others: str = "") -> Kind:
    """Different names; ``others`` goes before the advice where a name is not among these."""

    def read(value: Any) -> tuple[str, ...]:
        different = isinstance(value, list) and len(set(map(value_shown, value))) == len(value)
        if not different or not (value or empty):
            raise UnfitError(value)
        for name in value:
            if name not in among():
                advice = " or ".join(filter(None, (others, near(name, among()))))
                raise UnfitError(name, advice)
        return tuple(value)

    return Kind(lambda: f"a list of different names among {', '.join(among())}", read)


def whole(least: int = 1) -> Kind:
    """A whole number."""

    def read(value: Any) -> int:
        if type(value) is not int or value < least:
            raise UnfitError(value)
        if value > LARGEST:
            raise UnfitError(value, f"use at most {LARGEST:,}")
        return value

    return Kind(lambda: f"a whole number of at least {least}", read)


def number(above: float, below: float, *, ends: bool = False) -> Kind:
    """A number strictly between two others, or with ``ends`` one of the two."""

    def fits(value: Any) -> bool:
        if type(value) not in (int, float):
            return False
        return above < value < below or (ends and value in (above, below))

    words = f"from {above:g} to {below:g}" if ends else f"between {above:g} and {below:g}"
    return a_kind(f"a number {words}", fits, float)


def _are_seeds(value: Any) -> bool:
    fit = isinstance(value, list) and all(type(s) is int and 0 <= s <= LARGEST for s in value)
    return fit and 0 < len(value) == len(set(value))


SEEDS = a_kind("a list of different whole numbers, such as [0, 1, 2]", _are_seeds, tuple)


class TomlTable:
    """One table of a file; anything else in its place is refused."""

    def __init__(self, values: Any, name: str, file: str) -> None:
        if not isinstance(values, Mapping):
            raise InputError(
                f"Expected a table [{name}], but got {value_shown(values)} in {file}: write "
                f"[{name}] and its keys below it."
            )
        self.values = values
        self._name = name
        self._file = file

    def read(self, keys: Sequence[StudyKey], *, beside: Sequence[str] = ()) -> dict[str, Any]:
        """The value of every key; keys that are neither among these nor ``beside`` are refused."""
        found = {}
        for key in keys:
            value = self.values.get(key.name, key.default)
            if value is REQUIRED:
                raise self.refuse(key.name, key.kind.wanted(), None)
            if key.name in self.values:
                try:
                    value = key.kind.read(value)
                except UnfitError as unfit:
                    wanted = key.kind.wanted()
                    raise self.refuse(key.name, wanted, unfit.value, unfit.advice) from None
            found[key.name] = value
        known = [*found, *beside]
        for name in self.values:
            if name not in known:
                raise InputError(
                    f"Expected keys among {', '.join(known)} in [{self._name}], but got "
                    f"{value_shown(name)} in {self._file}: {ended(near(name, known))}",
                    code="unknown",
                )
        return found

    def refuse(
        self, key: str, wanted: str, value: object, advice: str = "correct it"
    ) -> InputError:
        """The error for a value that does not fit; None stands for none."""
        got = "nothing" if value is None else value_shown(value)
        where = f"`{key}` of [{self._name}]" if self._name else f"`{key}`"
        advice = "add it" if value is None else advice
        return InputError(
            f"Expected {where} to be {wanted}, but got {got} in {self._file}: {ended(advice)}"
        )


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
