"""Compare two folders of answers, file by file and value by value."""

from __future__ import annotations

import csv
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
HASH = re.compile(r"[0-9a-f]{64}")
MISSING = "(missing)"


@dataclass(frozen=True)
class Allowance:
    """What two answers may differ in.

    ``tolerance`` bounds the difference of two decimal numbers, relative to the larger one if that
    is above 1. Whole numbers (steps, counts) are always compared exactly. ``reworded`` allows
    other words in a sentence; the numbers in it stay. ``rewritten`` says that names in the answers
    were replaced, so that their bytes and the order of keys are not those of the commit.
    """

    tolerance: float = 0.0
    reworded: bool = False
    rewritten: bool = False

    @property
    def exact(self) -> bool:
        return self.tolerance == 0 and not self.reworded and not self.rewritten


@dataclass(frozen=True)
class Difference:
    file: str
    place: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.file} {self.place}: {self.before} → {self.after}"


@dataclass(frozen=True)
class Listed:
    """A difference that is meant; ``*`` stands for anything in ``file`` and ``place``."""

    file: str
    reason: str
    place: str = "*"

    def covers(self, difference: Difference) -> bool:
        pairs = ((self.file, difference.file), (self.place, difference.place))
        return all(
            re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text)
            for pattern, text in pairs
        )


def read_listed(file: Path) -> list[Listed]:
    try:
        return [Listed(**entry) for entry in tomllib.loads(file.read_text())["difference"]]
    except (KeyError, TypeError, tomllib.TOMLDecodeError) as error:
        raise SystemExit(
            f"Expected [[difference]] with file, reason and maybe place in {file}: {error}."
        ) from None


def set_apart(
    differences: dict[str, list[Difference]], meant: Iterable[Listed]
) -> tuple[dict[str, list[Difference]], dict[Listed, list[Difference]]]:
    """The differences that no entry covers, and those that the first such entry does."""
    listed: dict[Listed, list[Difference]] = {entry: [] for entry in meant}
    left: dict[str, list[Difference]] = {file: [] for file in differences}
    for file, changes in differences.items():
        for change in changes:
            entry = next((entry for entry in listed if entry.covers(change)), None)
            (left[file] if entry is None else listed[entry]).append(change)
    return left, listed


def compare_folders(before: Path, after: Path, allowed: Allowance) -> dict[str, list[Difference]]:
    """The differences of every file that either folder has; an empty list if there are none."""
    files = {
        str(path.relative_to(folder))
        for folder in (before, after)
        for path in folder.rglob("*")
        if path.is_file()
    }
    return {file: compare_files(before, after, file, allowed) for file in sorted(files)}


def compare_files(before: Path, after: Path, file: str, allowed: Allowance) -> list[Difference]:
    first, second = before / file, after / file
    if not first.exists() or not second.exists():
        words = ["there" if path.exists() else MISSING for path in (first, second)]
        return [Difference(file, "", *words)]
    if first.read_bytes() == second.read_bytes():
        return []
    read = READERS[first.suffix]
    places = compare_values(read(first), read(second), allowed)
    differences = [Difference(file, place, old, new) for place, old, new in places]
    if not differences and allowed.exact:
        return [Difference(file, "", "the same values", "written in other bytes")]
    return differences


def compare_values(
    before: object, after: object, allowed: Allowance, place: str = ""
) -> Iterator[tuple[str, str, str]]:
    """Place, value before and value after of everything that differs by more than allowed."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            old, new = before.get(key, MISSING), after.get(key, MISSING)
            yield from compare_values(old, new, allowed, f"{place}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from compare_values(old, new, allowed, f"{place}[{index}]")
    elif not _same(before, after, allowed):
        yield place, _short(before), _short(after)


def _same(before: object, after: object, allowed: Allowance) -> bool:
    if isinstance(before, str) and isinstance(after, str):
        return _same_text(before, after, allowed)
    if isinstance(before, float) and isinstance(after, float):
        return _near(before, after, allowed)
    return type(before) is type(after) and before == after


def _same_text(before: str, after: str, allowed: Allowance) -> bool:
    if before == after:
        return True
    if allowed.tolerance and HASH.fullmatch(before) and HASH.fullmatch(after):
        return True  # hashes of numbers that may differ in their last digits
    if not (allowed.reworded and " " in before and " " in after):
        return False
    old, new = NUMBER.findall(before), NUMBER.findall(after)
    return len(old) == len(new) and all(
        _near(float(first), float(second), allowed) for first, second in zip(old, new, strict=True)
    )


def _near(before: float, after: float, allowed: Allowance) -> bool:
    if before == after or (math.isnan(before) and math.isnan(after)):
        return True
    return abs(before - after) <= allowed.tolerance * max(1.0, abs(before), abs(after))


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _read_lines(file: Path) -> list[object]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def _read_table(file: Path) -> list[list[object]]:
    with file.open(newline="") as opened:
        return [[_cell(text) for text in row] for row in csv.reader(opened)]


def _cell(text: str) -> object:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


READERS: dict[str, Callable[[Path], object]] = {
    ".json": lambda file: json.loads(file.read_text()),
    ".jsonl": _read_lines,
    ".csv": _read_table,
}
