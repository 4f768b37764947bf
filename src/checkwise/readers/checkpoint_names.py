"""Patterns of checkpoints' names: ``epoch={epoch}-step={step+1}*.ckpt``."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Final

from checkwise.errors import InputError
from checkwise.words import counted, printable, shortened, shown

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


MOST_NAMES: Final = 100_000  # in one folder
MOST_FOLDERS: Final = 10_000  # that one pattern may lead through
INCOMPLETE: Final = "checkpoint-is-incomplete.txt"  # transformers, while it saves before a stop
_NO_WEIGHTS: Final = "trainer_state.json"


@dataclass(frozen=True)
class Numbered:
    """A checkpoint whose name carries numbers of the log: ``{"step": 500}``."""

    path: str
    numbers: Mapping[str, int]


def names_in(folder: Path) -> list[str]:
    """The names in a folder, sorted, without hidden ones; none where there is no folder.

    Raises:
        InputError: it cannot be listed, or holds too many names.
    """
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, MOST_NAMES + 1)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise InputError(
            f"Expected a folder of checkpoints, but {folder} cannot be listed "
            f"({error.strerror}): check its permissions.",
            code="system",
        ) from None
    if len(names) > MOST_NAMES:
        raise InputError(
            f"Expected at most {MOST_NAMES:,} names in a folder of checkpoints, but {folder} has "
            "more: move the checkpoints of this run into a folder of their own.",
            code="unsupported",
        )
    return sorted(name for name in names if not name.startswith("."))


def above(folder: Path) -> Path:
    """The folder around a folder, without a look behind links where none is needed."""
    is_plain = folder.name not in ("", "..") and not folder.is_symlink()
    return folder.parent if is_plain else folder.resolve().parent


def is_whole(path: Path) -> bool:
    """Whether a checkpoint is there: a file, or a folder with more in it than a log."""
    if os.path.isfile(path):
        return True
    try:
        with os.scandir(path) as entries:
            names = [entry.name for entry in islice(entries, MOST_NAMES)]
    except (OSError, ValueError):  # a name that no file can have
        return False
    return INCOMPLETE not in names and any(name != _NO_WEIGHTS for name in names)


def matching(pattern: Pattern, base: Path) -> list[Numbered]:
    """Every checkpoint below a folder that a pattern matches, sorted by path.

    Raises:
        InputError: a folder cannot be listed, or the pattern leads through too many.
    """
    start = Path("/") if pattern.is_absolute else base
    files = []
    for path, digits in _walk(pattern, start):
        numbers = pattern.read(digits)
        if numbers is not None and is_whole(path):
            files.append(Numbered(str(path), numbers))
    return files


def named_folder(pattern: Pattern, base: Path) -> Path:
    """The folder that the pattern's names without ``*`` or numbers lead to."""
    folder = Path("/") if pattern.is_absolute else base
    for part in pattern.parts[:-1]:
        if isinstance(part, re.Pattern):
            break
        folder /= part
    return folder


def _walk(pattern: Pattern, start: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """The paths that the parts of a pattern match, with the digits in them."""
    waiting: list[tuple[Path, tuple[str, ...]]] = [(start, ())]
    for part in pattern.parts:
        if len(waiting) > MOST_FOLDERS:
            raise InputError(
                f"Expected --checkpoints to lead through at most {MOST_FOLDERS:,} folders, but "
                f"{shown(pattern.text)} leads through more: name the folder of this run.",
                code="unsupported",
            )
        if isinstance(part, str):
            waiting = [(folder / part, digits) for folder, digits in waiting]
            continue
        waiting = [
            (folder / name, (*digits, *match.groups()))
            for folder, digits in waiting
            for name in names_in(folder)
            if (match := part.fullmatch(name))
        ]
    yield from waiting


@dataclass(frozen=True)
class Matches:
    """Checkpoints and the steps they belong to.

    Args:
        files: the checkpoints of a step.
        shared: checkpoints whose numbers fit several steps, such as one of an epoch in which
            the log has several evaluations.
        unlogged: checkpoints whose numbers fit no step of the log.
    """

    files: Mapping[int, tuple[str, ...]]
    shared: tuple[str, ...]
    unlogged: tuple[str, ...]


@dataclass(frozen=True)
class LoggedSteps:
    """The steps of a log and their epochs; without epochs a step is an epoch."""

    steps: Sequence[int]
    epochs: Mapping[int, int]

    def match(self, checkpoints: Iterable[Numbered]) -> Matches:
        """Give checkpoints to steps."""
        files: dict[int, list[str]] = defaultdict(list)
        shared: list[str] = []
        unlogged: list[str] = []
        by_names: dict[tuple[str, ...], dict[tuple[int, ...], list[int]]] = {}
        for checkpoint in checkpoints:
            names = tuple(sorted(checkpoint.numbers))
            if names not in by_names:
                by_names[names] = self._by_numbers(names)
            numbers = tuple(checkpoint.numbers[name] for name in names)
            steps = by_names[names].get(numbers, [])
            if len(steps) == 1:
                files[steps[0]].append(checkpoint.path)
            else:
                (shared if steps else unlogged).append(checkpoint.path)
        return Matches(
            {step: tuple(paths) for step, paths in sorted(files.items())},
            tuple(shared),
            tuple(unlogged),
        )

    def are(self, name: str) -> bool:
        """Whether the steps count what a number of that name does."""
        return name == "step" or all(self.epochs.get(step, step) == step for step in self.steps)

    @property
    def index_ahead(self) -> int:
        """How much more a name that counts epochs from 0 says than the log."""
        return -self._first_epoch if self.are("epoch") else 0

    def _by_numbers(self, names: tuple[str, ...]) -> dict[tuple[int, ...], list[int]]:
        steps: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for step in self.steps:
            numbers = [self._number(name, step) for name in names]
            if None not in numbers:
                steps[tuple(n for n in numbers if n is not None)].append(step)
        return steps

    def _number(self, name: str, step: int) -> int | None:
        if name == "step":
            return step
        epoch = self.epochs.get(step) if self.epochs else step
        if name != INDEX or epoch is None:
            return epoch
        return epoch - self._first_epoch if self._first_epoch in (0, 1) else None

    @cached_property
    def _first_epoch(self) -> int:
        return min(self.epochs.values() if self.epochs else self.steps)


FEWEST: Final = 2
_OFFSETS: Final = (0, 1, -1)
# A metric's value such as 0.23, which varies from name to name, or a whole number.
_ANY_NUMBER: Final = re.compile(r"([0-9]+\.[0-9]+)|([0-9]+)")
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
        by_form[_ANY_NUMBER.sub(lambda number: "*" if number[1] else "#", name)].append(name)
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
    wholes = [[match for match in _ANY_NUMBER.finditer(name) if match[2]] for name in names]
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

    return _ANY_NUMBER.sub(part, name)


_MOST_SHOWN: Final = 3
_LONGEST_NAME: Final = 80
_VERSION: Final = re.compile(r"-v([0-9]+)(?=\.ckpt$|$)")  # Lightning's, where a name was taken


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of a log.

    Args:
        files: the file or folder of each step that has one.
        notes: what to say about them.
        ahead: how much more the numbers in names are than the steps of the log that they count.
    """

    files: Mapping[int, str]
    notes: tuple[str, ...] = ()
    ahead: int = 0


def newest(paths: Sequence[str]) -> tuple[str | None, str]:
    """The one path, or the newest of Lightning's versions of one name; None if neither."""
    if len(paths) == 1:
        return paths[0], ""
    if len({_VERSION.sub("", path) for path in paths}) > 1:
        return None, ""
    path = max(paths, key=_version)
    return path, f"{short_name(path)} is taken as the newest of {counted(len(paths), 'version')}"


def _version(path: str) -> int:
    match = _VERSION.search(path)
    return int(match[1]) if match else -1


def shared_note(matches: Matches) -> list[str]:
    """What to say about checkpoints that fit several steps."""
    if not matches.shared:
        return []
    return [
        f"{some(matches.shared)} could be of several steps, because the log has several in an "
        "epoch: give --checkpoints a pattern with {step}"
    ]


def some(paths: Sequence[str]) -> str:
    """The names of the first few paths, and how many there are besides."""
    return shortened([short_name(path) for path in paths], _MOST_SHOWN, _LONGEST_NAME)


def short_name(path: str) -> str:
    """The last name of a path, on one line and not too long."""
    name = printable(os.path.basename(path))
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
