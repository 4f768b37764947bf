"""Checkpoints under names of the user's own: files that differ in one number only.

Nothing says from where the user counts, so the number is believed only where it can be counted in
one way: names 1 to 10 beside the epochs 0 to 9 are epochs plus one and nothing else.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from checkwise.readers.checkpoints.folders import Numbered
from checkwise.readers.checkpoints.logged_steps import LoggedSteps

FEWEST: Final = 2
_OFFSETS: Final = (0, 1, -1)
# A metric's value such as 0.23, which varies from name to name, or a whole number.
_NUMBER: Final = re.compile(r"([0-9]+\.[0-9]+)|([0-9]+)")
# Beside a number, these say that it counts something else than epochs.
_COUNTS_OTHERS: Final = "(?:fold|seed|run|part|split|member|ensemble|trial|replica|rank|shard)s?"
_BEFORE: Final = re.compile(rf"(?<![a-z]){_COUNTS_OTHERS}[-_.= ]*$", re.IGNORECASE)
_AFTER: Final = re.compile(rf"[-_.= ]*{_COUNTS_OTHERS}(?![a-z])(?![-_.= ]*[0-9])", re.IGNORECASE)


@dataclass(frozen=True)
class Family:
    """Names that are the same but for one number; ``{}`` in ``template`` marks it."""

    template: str
    numbers: tuple[tuple[str, int], ...]

    def suggestion(self, number: str) -> str:
        """A pattern for --checkpoints, with ``{epoch+1}`` or the like for the number."""
        return self.template.replace("{}", number)


def families(names: Iterable[str]) -> list[Family]:
    """Sort names into families; names without relatives are left out."""
    by_form: dict[str, list[str]] = defaultdict(list)
    for name in names:
        by_form[_NUMBER.sub(lambda number: "*" if number[1] else "#", name)].append(name)
    drawn = (_family(relatives) for relatives in by_form.values() if len(relatives) >= FEWEST)
    return [family for family in drawn if family is not None]


def proven(family: Family, folder: str, log: LoggedSteps) -> tuple[Mapping[int, str], int] | None:
    """The checkpoint of each step, if the whole family fits the log in one way of counting only.

    And how much more the names say than the steps that they count.
    """
    readings: list[tuple[Mapping[int, str], int]] = []
    for axis in ("step", "epoch") if log.epochs else ("epoch",):
        for offset in _OFFSETS:
            matches = log.match(
                Numbered(os.path.join(folder, name), {axis: number - offset})
                for name, number in family.numbers
            )
            files = {step: paths[0] for step, paths in matches.files.items()}
            known = [reading for reading, _ in readings]
            if len(files) == len(family.numbers) and files not in known:
                readings.append((files, offset if log.are(axis) else 0))
    return readings[0] if len(readings) == 1 else None


def _family(names: Sequence[str]) -> Family | None:
    """The family of names of one form, if one whole number varies and may count epochs."""
    wholes = [[match for match in _NUMBER.finditer(name) if match[2]] for name in names]
    columns = list(zip(*wholes, strict=True))
    varying = [c for c, column in enumerate(columns) if len({int(m[0]) for m in column}) > 1]
    if len(varying) != 1:
        return None
    numbers = [int(match[0]) for match in columns[varying[0]]]
    if len(set(numbers)) < len(numbers):
        return None
    first = columns[varying[0]][0]
    if _BEFORE.search(names[0][: first.start()]) or _AFTER.match(names[0][first.end() :]):
        return None
    template = _template(names[0], first.start())
    return Family(template, tuple(zip(names, numbers, strict=True)))


def _template(name: str, start: int) -> str:
    def part(number: re.Match[str]) -> str:
        if number.start() == start:
            return "{}"
        return "*" if number[1] else number[0]

    return _NUMBER.sub(part, name)
