"""Tables of plain values: dataclasses whose fields say what a study file may hold.

The fields drive what is read, messages and the reference page; ``from_plain`` makes a dataclass
again from what was kept of it as JSON.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from checkwise.errors import InputError
from checkwise.words import is_plain
from checkwise.words import shown as value_shown

LONGEST_NAME = 100
LARGEST_FILE = 1 << 20  # bytes; a study file has a few thousand
LARGEST = 100_000_000  # a larger schedule, width or seed is a typing error
REQUIRED: Final = object()
Content = TypeVar("Content")


class UnfitError(Exception):
    """A value, or a part of it, that a key may not have; ``advice`` is what to do."""

    def __init__(self, value: object, advice: str = "correct it") -> None:
        super().__init__(value, advice)
        self.value = value
        self.advice = advice


@dataclass(frozen=True)
class ValueKind:
    """What a key may hold: in words, and a function that returns the value as it is used."""

    wanted: Callable[[], str]
    read: Callable[[Any], Any]


@dataclass(frozen=True)
class StudyKey:
    """A key of a table. ``shown`` is how the reference page puts a default that depends."""

    name: str
    kind: ValueKind
    means: str
    default: Any = REQUIRED
    shown: str | None = None

    @property
    def default_shown(self) -> str:
        """The default for the reference page."""
        if self.shown is not None or self.default is None:
            return self.shown or "none"
        return "required" if self.default is REQUIRED else json.dumps(self.default)


def key(
    means: str,
    default: Any = MISSING,
    *,
    kind: ValueKind | None = None,
    table: str = "",
    shown: str | None = None,
    unset: Any = MISSING,
    factory: Any = MISSING,
) -> Any:
    """A field that is a key of a study file.

    Args:
        means: what the reference page says of it.
        default: that of the field.
        kind: what it may hold, where that does not follow from the field's type.
        table: the table of the file, where fields of one dataclass are in several.
        shown: how the page puts a default that depends.
        unset: what is read where the key is absent, if not the default.
    """
    facts = {"means": means, "kind": kind, "table": table, "shown": shown, "unset": unset}
    if factory is not MISSING:
        return field(default_factory=factory, metadata=facts)
    return field(default=default, metadata=facts)


def keys_of(record: type, table: str = "") -> tuple[StudyKey, ...]:
    hints = get_type_hints(record)
    found = []
    for entry in fields(record):
        facts = entry.metadata
        if not facts or facts["table"] != table:
            continue
        default = entry.default if facts["unset"] is MISSING else facts["unset"]
        kind = facts["kind"] or _kind_of(hints[entry.name])
        default = REQUIRED if default is MISSING else default
        found.append(StudyKey(entry.name, kind, facts["means"], default, facts["shown"]))
    return tuple(found)


def _kind_of(hint: Any) -> ValueKind:
    optional = get_origin(hint) in (Union, UnionType)
    (only,) = [h for h in get_args(hint) if h is not NoneType] if optional else [hint]
    if get_origin(only) is Literal:
        return one_of(lambda: get_args(only))
    return {bool: FLAG, int: whole(), str: OPTIONAL if optional else TEXT}[only]


def a_kind(
    wanted: str, fits: Callable[[Any], bool], read: Callable[[Any], Any] = lambda value: value
) -> ValueKind:
    """Values that pass a test, as ``read`` returns them."""

    def checked(value: Any) -> Any:
        if not fits(value):
            raise UnfitError(value)
        return read(value)

    return ValueKind(lambda: wanted, checked)


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and (not value or is_plain(value))


def _is_name(value: Any) -> bool:
    return _is_line(value) and 0 < len(value) <= LONGEST_NAME and not {"/", "\\"} & set(value)


def are_different(value: Any, fits: Callable[[Any], bool]) -> bool:
    """Whether a value is a list of entries that fit, none of them twice."""
    fit = isinstance(value, list) and all(map(fits, value))
    return fit and 0 < len(value) == len(set(value))


TEXT = a_kind("a string", _is_line)
OPTIONAL = a_kind("a string", _is_line, lambda value: value or None)
NAME = a_kind(f'a name of 1 to {LONGEST_NAME} characters without "/"', _is_name)
FLAG = a_kind("true or false", lambda value: isinstance(value, bool))
SEEDS = a_kind(
    "a list of different whole numbers, such as [0, 1, 2]",
    lambda value: are_different(value, lambda s: type(s) is int and 0 <= s <= LARGEST),
    tuple,
)


def one_of(among: Callable[[], Sequence[str]]) -> ValueKind:
    def read(value: Any) -> Any:
        if not isinstance(value, str) or value not in among():
            raise UnfitError(value, near(value, among()))
        return value

    return ValueKind(lambda: f"one of {', '.join(among())}", read)


def names(
    among: Callable[[], Sequence[str]], *, empty: bool = False, others: str = ""
) -> ValueKind:
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

    return ValueKind(lambda: f"a list of different names among {', '.join(among())}", read)


def whole(least: int = 1) -> ValueKind:
    """A whole number."""

    def read(value: Any) -> int:
        if type(value) is not int or value < least:
            raise UnfitError(value)
        if value > LARGEST:
            raise UnfitError(value, f"use at most {LARGEST:,}")
        return value

    return ValueKind(lambda: f"a whole number of at least {least}", read)


def number(above: float, below: float, *, ends: bool = False) -> ValueKind:
    """A number strictly between two others, or with ``ends`` one of the two."""

    def fits(value: Any) -> bool:
        if type(value) not in (int, float):
            return False
        return above < value < below or (ends and value in (above, below))

    words = f"from {above:g} to {below:g}" if ends else f"between {above:g} and {below:g}"
    return a_kind(f"a number {words}", fits, float)


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
                    f"{value_shown(name)} in {self._file}: {near(name, known)}",
                    code="unknown",
                )
        return found

    def refuse(
        self, key: str, wanted: str, value: object, advice: str = "correct it"
    ) -> InputError:
        """The error for a value that does not fit; None stands for none."""
        got = "nothing" if value is None else value_shown(value)
        where = f"`{key}` of [{self._name}]" if self._name else f"`{key}`"
        advice = _ended("add it" if value is None else advice)
        return InputError(
            f"Expected {where} to be {wanted}, but got {got} in {self._file}: {advice}"
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
            f"Expected {what} in TOML, but got: {reason} in {path}: correct it.", code="format"
        ) from None


def near(name: object, known: Iterable[str], otherwise: str = "remove or correct it.") -> str:
    text = name if isinstance(name, str) else value_shown(name)
    nearest = difflib.get_close_matches(text[:LONGEST_NAME], list(known), n=1)
    return f"did you mean {nearest[0]!r}?" if nearest else otherwise


def _ended(advice: str) -> str:
    return advice if advice[-1] in "?." else f"{advice}."


def from_plain(kind: type[Content], values: Mapping[str, Any]) -> Content:
    """A dataclass from its fields as plain values, with lists for tuples.

    Raises:
        UnfitError: a value does not fit its field, or there is none; ``advice`` names the field.
    """
    hints = get_type_hints(kind)
    found = {}
    for name, value in values.items():
        try:
            found[name] = _fitted(value, hints[name])
        except (KeyError, UnfitError):
            raise UnfitError(value, name) from None
    for entry in fields(kind):  # type: ignore[arg-type]
        required = entry.default is MISSING and entry.default_factory is MISSING
        if required and entry.name not in found:
            raise UnfitError(None, entry.name)
    return kind(**found)


def _fitted(value: Any, kind: Any) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        for option in inner:
            try:
                return _fitted(value, option)
            except UnfitError:
                continue
    elif origin is Literal and value in inner:
        return value
    elif origin is tuple and isinstance(value, list | tuple):
        each = inner[:1] * len(value) if Ellipsis in inner else inner
        if len(each) == len(value):
            return tuple(_fitted(entry, of) for entry, of in zip(value, each, strict=True))
    elif origin is Mapping and isinstance(value, Mapping):
        return {_fitted(k, inner[0]): _fitted(entry, inner[1]) for k, entry in value.items()}
    elif is_dataclass(kind) and isinstance(kind, type):
        if isinstance(value, kind):
            return value
        if isinstance(value, Mapping):
            return from_plain(kind, value)
    elif type(value) is kind or (kind is float and type(value) is int):
        return value
    raise UnfitError(value)
