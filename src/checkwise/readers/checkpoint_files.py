"""The checkpoint of each logged step, by the log's own word, a user's pattern or a trainer's names.

No checkpoint is opened: its name says which step it is of, or nothing does. A pattern is a path
such as ``checkpoints/epoch={epoch}-step={step+1}*.ckpt``.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple

from checkwise.errors import InputError
from checkwise.readers import request
from checkwise.readers.csv_file import header_of, is_log
from checkwise.readers.log import Trainer
from checkwise.readers.rows import trainer_of
from checkwise.words import counted, printable, shortened, shown

MOST_FOLDERS: Final = 10_000  # that one pattern may lead through
_INCOMPLETE: Final = "checkpoint-is-incomplete.txt"  # transformers, while it saves before a stop
_NO_WEIGHTS: Final = "trainer_state.json"
# Not within braces, where {val/loss} is one name.
_SLASH: Final = re.compile(r"/(?![^{}]*\})")
_TOKEN: Final = re.compile(
    r"\{(?P<name>[^{}:+-]*)(?P<offset>[+-][0-9]{1,9})?(?::[^{}]*)?\}"
    r"|(?P<star>\*+)|(?P<text>[^{}*]+)|(?P<brace>[{}])"
)
# A number is a whole run of digits, so that `*` leaves none of it behind.
_NUMBER: Final = r"(?<![0-9])([0-9]+)(?![0-9])"
_VERSION: Final = re.compile(r"-v([0-9]+)(?=\.ckpt$|$)")  # Lightning's, where a name was taken
_FEWEST_OLDER: Final = 2  # one name may fit an older version's count by chance
_LONGEST_NAME: Final = 80
# A metric's value such as 0.23, which varies from name to name, or a whole number.
_ANY_NUMBER: Final = re.compile(r"([0-9]+\.[0-9]+)|([0-9]+)")
# Beside a number, these say that it counts something else than epochs.
_COUNTS_OTHERS: Final = "(?:fold|seed|run|part|split|member|ensemble|trial|replica|rank|shard)s?"
_BEFORE: Final = re.compile(rf"(?<![a-z]){_COUNTS_OTHERS}[-_.= ]*$", re.IGNORECASE)
_AFTER: Final = re.compile(rf"[-_.= ]*{_COUNTS_OTHERS}(?![a-z])(?![-_.= ]*[0-9])", re.IGNORECASE)


@dataclass(frozen=True)
class Checkpoints:
    """The file or folder of each step that has one.

    ``ahead`` is how much more the numbers in names are than the steps of the log that they count.
    """

    files: Mapping[int, str]
    notes: tuple[str, ...] = ()
    ahead: int = 0


def find_checkpoints(
    log_path: Path,
    trainer: Trainer,
    steps: Sequence[int],
    epochs: Mapping[int, int],
    *,
    pattern: str | None,
    told: Mapping[int, str],
) -> Checkpoints:
    """Find the checkpoint of each logged step."""
    folder = log_path if log_path.is_dir() else log_path.parent
    # A log that is part of a checkpoint is that of the run around it.
    base = _above(folder) if re.fullmatch("checkpoint-[0-9]+", folder.resolve().name) else folder
    log = _Logged(steps, epochs)
    # What lies beside the log comes last, and so wins over what lies in the current folder.
    places = ((s, path) for s in steps if (n := told.get(s)) for path in (n, os.path.join(base, n)))
    named = {step: path for step, path in places if is_whole(Path(path))}
    if pattern is not None:
        by_name = _by_pattern(parse(os.path.expanduser(pattern)), base, log)
        return replace(by_name, files={**by_name.files, **named})
    if told and not named:
        note = f"none of the {len(told)} checkpoints that the log names is there "
        return Checkpoints({}, (f"{note}({_some(list(told.values()))})",))
    return Checkpoints(named) if named else _by_trainer(trainer, log_path, base, log)


def steps_to_choose_from(
    steps: Sequence[int], checkpoints: Checkpoints, *, include_unsaved: bool
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The steps that stay, and what to say about the others, which have no checkpoint.

    All stay where ``include_unsaved``, and where none has one: nothing tells what was saved.
    """
    saved = tuple(step for step in steps if step in checkpoints.files)
    if len(saved) in (0, len(steps)):
        return tuple(steps), ()
    counts = f"{len(steps) - len(saved)} of {len(steps)} logged steps have no checkpoint"
    if include_unsaved:
        return tuple(steps), (f"{counts}; they may be chosen, because of --include-unsaved",)
    return saved, (f"{counts} and are left out (--include-unsaved keeps them)",)


class Numbered(NamedTuple):
    """A checkpoint, its numbers as the log counts them, and how much more its name says."""

    path: str
    numbers: Mapping[str, int]
    offsets: Mapping[str, int]


@dataclass(frozen=True)
class Pattern:
    """A path whose parts are names as they are, or expressions that match names.

    Args:
        text: the pattern as it was written.
        is_absolute: whether it begins at the root of the file system.
        parts: the parts of the path.
        numbers: name and offset of each number, in the order of the groups of all expressions; no
            offset where none is written.
    """

    text: str
    is_absolute: bool
    parts: tuple[str | re.Pattern[str], ...]
    numbers: tuple[tuple[str, int | None], ...]

    def read(self, path: Path | str, digits: Sequence[str]) -> Numbered | None:
        """A checkpoint with the log's numbers behind its own; None where two of one kind differ."""
        values: dict[str, int] = {}
        for (name, offset), text in zip(self.numbers, digits, strict=True):
            value = int(text) - (offset or 0)
            if values.setdefault(name, value) != value:
                return None
        return Numbered(str(path), values, {name: offset or 0 for name, offset in self.numbers})

    def read_name(self, folder: Path, name: str) -> Numbered | None:
        """A checkpoint in a folder; None where its name does not match the last part."""
        last = self.parts[-1]
        match = last.fullmatch(name) if isinstance(last, re.Pattern) else None
        return None if match is None else self.read(folder / name, match.groups())


def parse(text: str) -> Pattern:
    """Read a pattern.

    ``{step}``, ``{epoch}`` or ``{epoch+1}`` stand for a number with any leading zeros, ``*`` for
    any text within one name. A format as in ``{epoch:02d}`` is ignored.
    """
    numbers: list[tuple[str, int | None]] = []

    def expression(token: re.Match[str]) -> str:
        if token["text"] is not None:
            return re.escape(token["text"])
        if token["star"] is not None:
            return "[^/]*"
        if token["name"] not in ("step", "epoch"):
            raise InputError(
                f"Expected {{step}} or {{epoch}} in --checkpoints, but got {token[0]} in {text!r}: "
                "write * where other values stand, and close every brace."
            )
        numbers.append((token["name"], int(token["offset"]) if token["offset"] else None))
        return _NUMBER

    parts = tuple(
        re.compile(_TOKEN.sub(expression, part), re.DOTALL) if re.search(r"[{}*]", part) else part
        for part in _SLASH.split(text)
        if part not in ("", ".")
    )
    if not numbers or "\0" in text:
        raise InputError(
            f"Expected a path with {{step}} or {{epoch}} for --checkpoints, but got {text!r}: "
            "write it where the number stands, as in 'checkpoint-{step}' or "
            "'weights.{epoch+1}.keras'."
        )
    return Pattern(text, text.startswith("/"), parts, tuple(numbers))


def names_in(folder: Path) -> list[str]:
    """The names in a folder, sorted, without hidden ones; none where it cannot be listed."""
    return [name for name in request.names_in(folder) if not name.startswith(".")]


def is_whole(path: Path) -> bool:
    """Whether a checkpoint is there: a file, or a folder with more in it than a log."""
    if os.path.isfile(path):
        return True
    names = set(request.names_in(path))
    return _INCOMPLETE not in names and names > names & {_NO_WEIGHTS}


def matching(pattern: Pattern, base: Path) -> list[Numbered]:
    """Every checkpoint below a folder that a pattern matches, sorted by path."""
    found: list[tuple[Path, tuple[str, ...]]] = [(Path("/") if pattern.is_absolute else base, ())]
    for part in pattern.parts:
        if len(found) > MOST_FOLDERS:
            raise InputError(
                f"Expected --checkpoints to lead through at most {MOST_FOLDERS:,} folders, but "
                f"{shown(pattern.text)} leads through more: name the folder of this run.",
                code="unsupported",
            )
        if isinstance(part, str):
            found = [(folder / part, digits) for folder, digits in found]
            continue
        found = [
            (folder / name, (*digits, *match.groups()))
            for folder, digits in found
            for name in names_in(folder)
            if (match := part.fullmatch(name))
        ]
    read = (pattern.read(path, digits) for path, digits in found if is_whole(path))
    return [one for one in read if one is not None]


class _Logged:
    """The steps of a log and their epochs; without epochs a step is an epoch."""

    def __init__(self, steps: Sequence[int], epochs: Mapping[int, int]) -> None:
        self.steps, self.axes = steps, ("step", "epoch") if epochs else ("epoch",)
        epoch_of = epochs or {step: step for step in steps}
        # A log whose first epoch is neither 0 nor 1 is a part: from where it counts is unknown.
        self.index = {0: "{epoch}", 1: "{epoch-1}"}.get(min(epoch_of.values(), default=0), "")
        self.are_epochs = all(epoch_of.get(step, step) == step for step in steps)
        self._by_numbers: dict[tuple[int | None, int | None], list[int]] = defaultdict(list)
        for step in steps:
            epoch = epoch_of.get(step)
            for numbers in {(step, epoch), (step, None), (None, epoch)}:
                self._by_numbers[numbers].append(step)

    def match(self, checkpoints: Iterable[Numbered]) -> _Matches:
        """Give checkpoints to steps: all numbers in a name have to fit."""
        found = _Matches()
        for path, numbers, offsets in checkpoints:
            steps = self._by_numbers.get((numbers.get("step"), numbers.get("epoch")), [])
            if len(steps) == 1:
                found.files.setdefault(steps[0], []).append(path)
                by_epoch = offsets.get("epoch", 0) if self.are_epochs else 0
                found.aheads.append(offsets.get("step", by_epoch))
            else:
                (found.shared if steps else found.unlogged).append(path)
        return found


@dataclass
class _Matches:
    """The checkpoints of each step, those that fit several steps or none, and by how much."""

    files: dict[int, list[str]] = field(default_factory=dict)
    shared: list[str] = field(default_factory=list)
    unlogged: list[str] = field(default_factory=list)
    aheads: list[int] = field(default_factory=list)

    def one_per_step(self) -> Checkpoints:
        """The newest checkpoint of a step, or else the one with the plainest name."""
        files, notes = {}, []
        for step, paths in sorted(self.files.items()):
            newest = _newest(paths)
            files[step] = newest or min(paths, key=lambda path: (len(path), path))
            name = _some([files[step]])
            if newest is None:
                notes.append(f"step {step} has several checkpoints: {name} is taken")
            elif len(paths) > 1:
                notes.append(f"{name} is taken as the newest of {counted(len(paths), 'version')}")
        if self.shared:
            notes.append(
                f"{_some(self.shared)} could be of several steps, because the log has several in "
                "an epoch: give --checkpoints a pattern with {step}"
            )
        return Checkpoints(files, tuple(notes), max(self.aheads, default=0))


def _newest(paths: Sequence[str]) -> str | None:
    """The one path, or the newest of Lightning's versions of one name; None if neither."""
    if len({_VERSION.sub("", path) for path in paths}) > 1:
        return None
    return max(paths, key=lambda path: [int(version) for version in _VERSION.findall(path)])


def _by_pattern(pattern: Pattern, base: Path, log: _Logged) -> Checkpoints:
    """The checkpoints that a pattern matches, below the log's folder or the current one."""
    files = matching(pattern, base)
    if not files and not pattern.is_absolute:
        files = matching(pattern, Path())
    matches = log.match(files)
    if not files:
        named = takewhile(lambda part: isinstance(part, str), pattern.parts[:-1])
        folder = Path("/" if pattern.is_absolute else base, *map(str, named))
        raise InputError(
            f"Expected checkpoints that match --checkpoints {pattern.text!r}, but there are none "
            f"in {folder}, which holds {_some(names_in(folder))}: check the pattern, which begins "
            "at the folder of the log or at the current one.",
            code="missing",
        )
    if not matches.files:
        steps = _some([str(step) for step in log.steps])
        raise InputError(
            f"Expected checkpoints of steps of the log ({steps}), but the numbers in "
            f"{_some(matches.shared or matches.unlogged)}, by --checkpoints {pattern.text!r}, are "
            f"{'of several steps each' if matches.shared else 'none of these'}: check what they "
            "count, and write {step}, or for example {epoch+1}.",
            code="ambiguous" if matches.shared else "missing",
        )
    (name, written), *others = pattern.numbers
    if matches.unlogged and written is None and not others:
        # Keras counts epochs in names from 1, in logs from 0.
        for offset in (1, -1):
            shifted = [one._replace(numbers={name: one.numbers[name] - offset}) for one in files]
            if not log.match(shifted).unlogged:
                raise InputError(
                    f"Expected {{{name}}} to count as the log does, but {_some(matches.unlogged)} "
                    f"fits only if names are {offset:+d} beside the log: write "
                    f"{{{name}{offset:+d}}}, or {{{name}+0}} if they are not.",
                    code="differs",
                )
    for step, paths in sorted(matches.files.items()):
        if _newest(paths) is None:
            raise InputError(
                f"Expected one checkpoint of step {step}, but --checkpoints {pattern.text!r} "
                f"matches {_some(paths)}: write more of the name, so that it matches one.",
                code="ambiguous",
            )
    return matches.one_per_step()


def _by_trainer(trainer: Trainer, log_path: Path, base: Path, log: _Logged) -> Checkpoints:
    """The checkpoints in the first of the trainer's folders that has any of the log's steps."""
    unmatched: list[str] = []
    notes: list[str] = []
    for name in trainer.folders:
        place = _Place.of(base, name, trainer.weights)
        found = _of_this_training(trainer, log_path, place.checkpoints(trainer, log))
        rivals = _rivals(trainer, log_path, base, name) if found.files else ""
        if rivals:
            notes.append(
                f"the checkpoints in {place.folder} are not matched with steps, because {rivals}: "
                "if they are of this run, give --checkpoints"
            )
        elif found.files:
            return replace(found, notes=(*notes, *found.notes))
        elif ".." not in name:
            unmatched += place.names
            notes += found.notes
    if not unmatched or notes:
        return Checkpoints({}, tuple(notes))
    if any(letter.isdigit() for name in unmatched for letter in Path(name).stem):
        note = (
            f"no name of a checkpoint fits a step of the log for sure ({_some(unmatched)}): if "
            "they are of its steps, say which number they carry, as in --checkpoints "
            "'model-{epoch+1}.pt' if it is one more than in the log, 'model-{epoch}.pt' if it is "
            "the same"
        )
    else:
        note = f"checkpoints beside the log ({_some(unmatched)}) say no step: none has a path"
    return Checkpoints({}, (note,))


@dataclass(frozen=True)
class _Place:
    """A folder, its way from the folder of the run, and the names of checkpoints in it."""

    folder: Path
    way: str
    names: Sequence[str]

    @classmethod
    def of(cls, base: Path, way: str, globs: Sequence[str]) -> _Place:
        folder = base
        for part in Path(way).parts:  # which may begin at the root
            folder = _above(folder) if part == ".." else folder / part
        names = (n for n in names_in(folder) if any(fnmatchcase(n, glob) for glob in globs))
        return cls(folder, way, [name for name in names if is_whole(folder / name)])

    def checkpoints(self, trainer: Trainer, log: _Logged) -> Checkpoints:
        """Those of the log's steps: by the trainer's names, or by names of the user's own."""
        texts = [text for text in trainer.checkpoints if log.index or "{index}" not in text]
        numbered = self._numbered([text.replace("{index}", log.index) for text in texts])
        matches = log.match(numbered)
        older = [text.replace("{step+1}", "{step}") for text in texts if "{step+1}" in text]
        by_older = log.match(self._numbered(older))
        if len(by_older.files) >= _FEWEST_OLDER and not by_older.unlogged and not by_older.shared:
            if not matches.files:
                return by_older.one_per_step()
            paths = [path for _, paths in sorted(by_older.files.items()) for path in paths]
            return self._unclear(paths, "*step={step}*.ckpt")
        if numbered or not trainer.named_by_user:
            return matches.one_per_step()
        related = _families(self.names)
        fitting = [one for family in related if (one := self._in_one_way(family, log)) is not None]
        if len(fitting) == 1 or not related:
            return fitting[0] if fitting else Checkpoints({})
        template, names = related[0]
        why = "several kinds of names fit" if fitting else ""
        return self._unclear(names, template.replace("{}", "{epoch}"), why)

    def _numbered(self, texts: Iterable[str]) -> list[Numbered]:
        """Checkpoints with the numbers that the first pattern of their form reads."""
        found: dict[str, Numbered] = {}
        for pattern in map(parse, texts):
            for name in self.names:
                if name not in found and (one := pattern.read_name(self.folder, name)):
                    found[name] = one
        return [found[name] for name in self.names if name in found]

    def _in_one_way(self, family: tuple[str, list[str]], log: _Logged) -> Checkpoints | None:
        """The checkpoints of a family, if all fit the log in one way of counting only."""
        template, names = family
        ways: dict[tuple[tuple[int, str], ...], int] = {}
        for number in (f"{{{axis}{more}}}" for axis in log.axes for more in ("", "+1", "-1")):
            these = replace(self, names=names)
            matches = log.match(these._numbered([template.replace("{}", number)]))
            files = tuple((step, paths[0]) for step, paths in sorted(matches.files.items()))
            if len(files) == len(names):
                ways.setdefault(files, max(matches.aheads))
        if len(ways) != 1:
            return None
        ((found, ahead),) = ways.items()
        return Checkpoints(dict(found), ahead=ahead)

    def _unclear(self, paths: Sequence[str], template: str, why: str = "") -> Checkpoints:
        as_logged = os.path.normpath(os.path.join(self.way, template))
        note = (
            f"{_some(paths)} are not matched with steps, because "
            f"{why or 'it is not clear from where names count'}: give --checkpoints "
            f"{as_logged.replace('}', '+1}')!r} if they count one more than the log, "
            f"{as_logged!r} if as the log does"
        )
        return Checkpoints({}, (note,))


def _families(names: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Names that are the same but for one number, which ``{}`` marks; others are left out."""
    by_form: dict[str, list[str]] = defaultdict(list)
    for name in names:  # marked by what no name can hold
        if not {"{", "}", "*"} & set(name):
            by_form[_ANY_NUMBER.sub(lambda n: "/" if n[1] else "\0", name)].append(name)
    templates = ((_template(alike), alike) for alike in by_form.values())
    return [(template, alike) for template, alike in templates if template]


def _template(names: Sequence[str]) -> str:
    """What names of one form have in common, if one whole number varies and may count epochs."""
    wholes = [[match for match in _ANY_NUMBER.finditer(name) if match[2]] for name in names]
    columns = zip(*wholes, strict=True)
    varying = [column for column in columns if len({int(match[0]) for match in column}) > 1]
    if len(varying) != 1 or len({int(match[0]) for match in varying[0]}) < len(names):
        return ""
    first = varying[0][0]
    if _BEFORE.search(names[0][: first.start()]) or _AFTER.match(names[0][first.end() :]):
        return ""

    def part(number: re.Match[str]) -> str:
        return "{}" if number.start() == first.start() else "*" if number[1] else number[0]

    return _ANY_NUMBER.sub(part, names[0])


def _of_this_training(trainer: Trainer, log_path: Path, checkpoints: Checkpoints) -> Checkpoints:
    """Without those whose own account of the training is another than the log."""
    if not trainer.state or not checkpoints.files:
        return checkpoints
    from checkwise.readers.transformers import of_another_training

    folders = [Path(path) for path in checkpoints.files.values()]
    others = [str(folder) for folder in of_another_training(folders, trainer.state, log_path)]
    if not others:
        return checkpoints
    note = f"left out: {_some(others)}, of another training by the {trainer.state} inside"
    files = {step: path for step, path in checkpoints.files.items() if path not in others}
    return replace(checkpoints, files=files, notes=(*checkpoints.notes, note))


def _rivals(trainer: Trainer, log_path: Path, base: Path, way: str) -> str:
    """Why checkpoints may be of another log; "" where they are not, or the log says where."""
    if os.path.isabs(way):
        return ""
    if ".." in way:
        above = _above(base)
        start = "events" if log_path.is_dir() else log_path.name.split(".")[0]
        folders = (f for n in names_in(above) if (f := above / n).is_dir() and not f.samefile(base))
        if any(name.split(".")[0] == start for folder in folders for name in names_in(folder)):
            return f"other logs lie beside {base}"
        if other := _another_log(above, log_path):
            return f"{other} lies there as well"
    if not trainer.state and log_path.is_file() and (other := _another_log(base, log_path)):
        return f"they could be of {_some([str(other)])} as well"
    return ""


def _another_log(folder: Path, log_path: Path) -> Path | None:
    """The first other log in a folder whose trainer saves checkpoints there."""
    files = (folder / name for name in names_in(folder))
    return next((file for file in files if file != log_path and _saves(file)), None)


def _saves(path: Path) -> bool:
    try:
        if path.suffix.lower() == ".json":
            from checkwise.readers import json_log

            return json_log.is_log(path)
        is_table = path.suffix.lower() in (".csv", ".log", ".tsv", ".txt") and is_log(path)
        return is_table and bool(trainer_of(header_of(path)).folders)
    except (InputError, OSError):
        return False


def _above(folder: Path) -> Path:
    """The folder around a folder, without a look behind links where none is needed."""
    is_plain = folder.name not in ("", "..") and not folder.is_symlink()
    return folder.parent if is_plain else folder.resolve().parent


def _some(paths: Sequence[str]) -> str:
    """The last names of the first few paths, and how many there are besides."""
    names = [printable(os.path.basename(path)) for path in paths]
    cut = [n if len(n) <= _LONGEST_NAME else f"{n[: _LONGEST_NAME - 1]}…" for n in names]
    return shortened(cut, 3, _LONGEST_NAME)
