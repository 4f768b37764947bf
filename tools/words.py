"""The words of a commit: what it calls the commands, Python names, keys and rules asked about.

Questions and kept answers are in fixed words. A commit that says it otherwise has a line for it in
its own ``tools/words.toml``, left the fixed words, right the commit's. So a question reaches each
side in that side's words, and answers are compared in the fixed ones.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

Table = Mapping[str, str]
# The dots between the parts of a place, not those of {name...}.
PART = re.compile(r"(?<!\.)\.(?!\.)")


@dataclass(frozen=True)
class Words:
    """One side's words, as in ``words.toml``."""

    commands: Table = field(default_factory=dict)
    python: Table = field(default_factory=dict)
    keys: Table = field(default_factory=dict)
    places: Table = field(default_factory=dict)
    single: Table = field(default_factory=dict)
    files: Table = field(default_factory=dict)
    rules: Table = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Words:
        tables = tomllib.loads(text)
        unknown = tables.keys() - {entry.name for entry in fields(cls)}
        if unknown:
            raise SystemExit(f"Expected other tables in words.toml than {sorted(unknown)}.")
        return cls(**tables)

    def command(self, arguments: list[str]) -> list[list[str]]:
        """The commands that ask the same here; the last one's answer counts."""
        said = [_replaced(argument, self.rules) for argument in arguments]
        for old, new in self.commands.items():
            said = rewritten(said, old.split(), new.split()) or said
        ends = [index for index, word in enumerate([*said, "&&"]) if word == "&&"]
        starts = [0, *(end + 1 for end in ends)]
        return [said[start:end] for start, end in zip(starts, ends, strict=False)]

    def answer(self, kind: str, value: Any) -> Any:
        """What this side said, in the fixed words; ``value`` is parsed JSON."""
        if kind in self.single:
            value = _only(value, PART.split(self.single[kind]))
        if self.places:
            value = _moved(value, kind, self.places)
        return self._fixed(value)

    def table(self, rows: list[list[str]]) -> list[list[str]]:
        """The same for a CSV table, whose first row names the columns."""
        keys = _turned(self.keys)
        head = [[keys.get(name) or name for name in row] for row in rows[:1]]
        return [[self._text(cell) for cell in row] for row in [*head, *rows[1:]]]

    def file(self, place: str) -> str:
        """Where the fixed words have a file that this side wrote."""
        parts = place.split("/")
        for old, new in self.files.items():
            parts = rewritten(parts, new.split("/"), old.split("/")) or parts
        return "/".join(parts)

    @property
    def renames_answers(self) -> bool:
        return bool(self.keys or self.places or self.single or self.rules)

    def _fixed(self, value: Any) -> Any:
        if isinstance(value, dict):
            keys = _turned(self.keys)
            return {self._text(keys.get(k) or k): self._fixed(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self._fixed(entry) for entry in value]
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        return _replaced(text, _turned(self.rules))


def _turned(table: Table) -> dict[str, str]:
    return {new: old for old, new in table.items()}


def rewritten(said: list[str], pattern: list[str], result: list[str]) -> list[str] | None:
    """``said`` in other words if the pattern matches all of it.

    ``{name}`` stands for one word, ``{name...}`` for any number of them.
    """
    expression = "".join(_part(word) for word in pattern)
    match = re.fullmatch(expression, "".join(f"{word}\n" for word in said))
    if match is None:
        return None
    words: list[str] = []
    for word in result:
        many = re.fullmatch(r"\{(\w+)\.\.\.\}", word)
        found = match[many[1]] if many else f"{_filled(word, match.group)}\n"
        words += found.splitlines()
    return words


def _part(word: str) -> str:
    if many := re.fullmatch(r"\{(\w+)\.\.\.\}", word):
        return rf"(?P<{many[1]}>(?:[^\n]*\n)*?)"
    if one := re.fullmatch(r"\{(\w+)\}", word):
        return rf"(?P<{one[1]}>[^\n]*)\n"
    return re.escape(f"{word}\n")


def _filled(word: str, group: Callable[[str], Any]) -> str:
    return re.sub(r"\{(\w+)\}", lambda name: str(group(name[1])), word)


def _replaced(text: str, names: Table) -> str:
    """Rules by their new names, also within ``ac-nc+ts`` or ``ac-nc,source-acc``."""
    if not names:
        return text
    any_of = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.sub(rf"(?<![\w-])(?:{any_of})(?![\w-])", lambda found: names[found[0]], text)


def _only(value: Any, place: list[str]) -> Any:
    """What stands at a place that leads through lists of one; else all of it."""
    found = value
    for part in place:
        if part == "[0]":
            if not isinstance(found, list) or len(found) != 1:
                return value
            found = found[0]
        elif isinstance(found, dict) and part in found:
            found = found[part]
        else:
            return value
    return found


def _moved(value: Any, kind: str, places: Table) -> Any:
    """Values put where the fixed words have them; ``select.runs.[0].step`` is one place."""
    leaves: dict[tuple[str, ...], Any] = {}
    for place, leaf in _leaves(value, (kind,)):
        said = list(place)
        for old, new in places.items():
            said = rewritten(said, PART.split(new), PART.split(old)) or said
        leaves[tuple(said[1:])] = leaf
    return _tree(leaves)


def _leaves(value: Any, place: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict) and value:
        parts = list(value.items())
    elif isinstance(value, list) and value:
        parts = [(f"[{index}]", entry) for index, entry in enumerate(value)]
    else:
        return [(place, value)]
    return [leaf for name, part in parts for leaf in _leaves(part, (*place, name))]


def _tree(leaves: Mapping[tuple[str, ...], Any]) -> Any:
    if () in leaves:
        return leaves[()]
    below: dict[str, dict[tuple[str, ...], Any]] = {}
    for place, leaf in leaves.items():
        below.setdefault(place[0], {})[place[1:]] = leaf
    if all(re.fullmatch(r"\[\d+\]", name) for name in below):
        return [_tree(below[name]) for name in sorted(below, key=lambda name: int(name[1:-1]))]
    return {name: _tree(part) for name, part in below.items()}
