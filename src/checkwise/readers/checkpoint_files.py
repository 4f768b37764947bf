"""The checkpoint of each logged step, by the log's own word, a user's pattern or a trainer's names.

No checkpoint is opened: its name says which step it is of, or nothing does.
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
from typing import Final

from checkwise.errors import InputError
from checkwise.readers import csv_log
from checkwise.readers.checkpoint_names import (
    Numbered,
    Pattern,
    is_whole,
    matching,
    names_in,
    parse,
)
from checkwise.readers.csv_file import header_of
from checkwise.readers.log import Trainer
from checkwise.readers.rows import trainer_of
from checkwise.words import counted, printable, shortened

_VERSION: Final = re.compile(r"-v([0-9]+)(?=\.ckpt$|$)")  # Lightning's, where a name was taken
_FEWEST_OLDER: Final = 2  # one name may fit an older version's count by chance
_TABLES: Final = (".csv", ".log", ".tsv", ".txt")
_LONGEST_NAME: Final = 80
# A metric's value such as 0.23, which varies from name to name, or a whole number.
_ANY_NUMBER: Final = re.compile(r"([0-9]+\.[0-9]+)|([0-9]+)")
# Beside a number, these say that it counts something else than epochs.
_COUNTS_OTHERS: Final = "(?:fold|seed|run|part|split|member|ensemble|trial|replica|rank|shard)s?"
_BEFORE: Final = re.compile(rf"(?<![a-z]){_COUNTS_OTHERS}[-_.= ]*$", re.IGNORECASE)
_AFTER: Final = re.compile(rf"[-_.= ]*{_COUNTS_OTHERS}(?![a-z])(?![-_.= ]*[0-9])", re.IGNORECASE)


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


def find_checkpoints(
    log_path: Path,
    trainer: Trainer,
    steps: Sequence[int],
    epochs: Mapping[int, int],
    *,
    pattern: str | None,
    told: Mapping[int, str],
) -> Checkpoints:
    """Find the checkpoint of each logged step.

    Args:
        log_path: the file or folder that the log was read from.
        trainer: what wrote it.
        steps: the steps of the log.
        epochs: the epoch of a step, as the log counts it; without any, steps are epochs.
        pattern: what the user calls checkpoints, relative to the log's folder or to the current
            one.
        told: paths that the log itself names; they win where they exist.

    Raises:
        InputError: the pattern is none, matches nothing, or matches one step twice.
    """
    folder = log_path if log_path.is_dir() else log_path.parent
    # A log that is part of a checkpoint is that of the run around it.
    base = _above(folder) if re.fullmatch("checkpoint-[0-9]+", folder.resolve().name) else folder
    log = LoggedSteps(steps, epochs)
    # What lies beside the log comes last, and so wins over what lies in the current folder.
    places = ((s, path) for s in steps if (n := told.get(s)) for path in (n, os.path.join(base, n)))
    named = {step: path for step, path in places if is_whole(Path(path))}
    if pattern is not None:
        by_name = _by_pattern(parse(os.path.expanduser(pattern)), base, log)
        return replace(by_name, files={**by_name.files, **named})
    if named:
        return Checkpoints(named)
    if told:
        note = f"none of the {len(told)} checkpoints that the log names is there "
        return Checkpoints({}, (f"{note}({some(list(told.values()))})",))
    return _by_trainer(trainer, log_path, base, log)


def steps_to_choose_from(
    steps: Sequence[int], checkpoints: Checkpoints, *, include_unsaved: bool
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The steps that stay, and what to say about the others, which have no checkpoint.

    All stay where ``include_unsaved``, and where none has one: nothing tells what was saved.

    Example:
        >>> steps_to_choose_from([1, 2], Checkpoints({2: "b.pt"}),
        ...                      include_unsaved=False)[0]
        (2,)
    """
    saved = tuple(step for step in steps if step in checkpoints.files)
    if len(saved) in (0, len(steps)):
        return tuple(steps), ()
    counts = f"{len(steps) - len(saved)} of {len(steps)} logged steps have no checkpoint"
    if include_unsaved:
        return tuple(steps), (f"{counts}; they may be chosen, because of --include-unsaved",)
    return saved, (f"{counts} and are left out (--include-unsaved keeps them)",)


class LoggedSteps:
    """The steps of a log and their epochs; without epochs a step is an epoch."""

    def __init__(self, steps: Sequence[int], epochs: Mapping[int, int]) -> None:
        self.steps, self.epochs = steps, epochs
        epoch_of = epochs or {step: step for step in steps}
        # A log whose first epoch is neither 0 nor 1 is a part: from where it counts is unknown.
        self.index = {0: "{epoch}", 1: "{epoch-1}"}.get(min(epoch_of.values(), default=0), "")
        self.are_epochs = all(epoch_of.get(step, step) == step for step in steps)
        self._by_numbers: dict[tuple[int | None, int | None], list[int]] = defaultdict(list)
        for step in steps:
            epoch = epoch_of.get(step)
            for numbers in {(step, epoch), (step, None), (None, epoch)}:
                self._by_numbers[numbers].append(step)

    def match(self, checkpoints: Sequence[Numbered]) -> _Matches:
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
            name = short_name(files[step])
            if newest is None:
                notes.append(f"step {step} has several checkpoints: {name} is taken")
            elif len(paths) > 1:
                notes.append(f"{name} is taken as the newest of {counted(len(paths), 'version')}")
        if self.shared:
            notes.append(
                f"{some(self.shared)} could be of several steps, because the log has several in an "
                "epoch: give --checkpoints a pattern with {step}"
            )
        return Checkpoints(files, tuple(notes), max(self.aheads, default=0))


def _newest(paths: Sequence[str]) -> str | None:
    """The one path, or the newest of Lightning's versions of one name; None if neither."""
    if len({_VERSION.sub("", path) for path in paths}) > 1:
        return None
    return max(paths, key=lambda path: [int(version) for version in _VERSION.findall(path)])


def _by_pattern(pattern: Pattern, base: Path, log: LoggedSteps) -> Checkpoints:
    """The checkpoints that a pattern matches, below the log's folder or the current one."""
    files = matching(pattern, base)
    if not files and not pattern.is_absolute:
        files = matching(pattern, Path())
    matches = log.match(files)
    if not matches.files:
        raise _nothing_matches(pattern, base, log, matches)
    _check_count(pattern, files, log, matches)
    for step, paths in sorted(matches.files.items()):
        if _newest(paths) is None:
            raise InputError(
                f"Expected one checkpoint of step {step}, but --checkpoints {pattern.text!r} "
                f"matches {some(paths)}: write more of the name, so that it matches one.",
                code="ambiguous",
            )
    return matches.one_per_step()


def _nothing_matches(
    pattern: Pattern, base: Path, log: LoggedSteps, matches: _Matches
) -> InputError:
    expected = f"Expected checkpoints that match --checkpoints {pattern.text!r}"
    if matches.shared:
        return InputError(
            f"{expected}, but the log has several steps in an epoch, and {some(matches.shared)} "
            "could be of any of them: give a pattern with {step}.",
            code="ambiguous",
        )
    if matches.unlogged:
        steps = some([str(step) for step in log.steps])
        return InputError(
            f"{expected}, but the numbers in {some(matches.unlogged)} are none that the log has "
            f"({steps}): check what they count, and write, for example, {{epoch+1}}.",
            code="missing",
        )
    named = takewhile(lambda part: isinstance(part, str), pattern.parts[:-1])
    folder = Path("/" if pattern.is_absolute else base, *map(str, named))
    names = names_in(folder)
    there = f"which holds {some(names)}" if names else "which is empty or not there"
    return InputError(
        f"{expected}, but there are none in {folder}, {there}: check the pattern, which begins at "
        "the folder of the log or at the current one.",
        code="missing",
    )


def _check_count(
    pattern: Pattern, files: Sequence[Numbered], log: LoggedSteps, matches: _Matches
) -> None:
    """Refuse a number that is one off: Keras counts epochs in names from 1, in logs from 0."""
    (name, written), *others = pattern.numbers
    if others or written is not None or not matches.unlogged:
        return
    for offset in (1, -1):
        shifted = [f._replace(numbers={name: f.numbers[name] - offset}) for f in files]
        if not log.match(shifted).unlogged:
            raise InputError(
                f"Expected {{{name}}} to count as the log does, but {some(matches.unlogged)} fits "
                f"only if names are {abs(offset)} {'above' if offset > 0 else 'below'} the log: "
                f"write {{{name}{offset:+d}}}, or {{{name}+0}} if they are not.",
                code="differs",
            )


def _by_trainer(trainer: Trainer, log_path: Path, base: Path, log: LoggedSteps) -> Checkpoints:
    """The checkpoints in the first of the trainer's folders that has any of the log's steps."""
    unmatched: list[str] = []
    notes: list[str] = []
    for name in trainer.folders:
        folder = base
        for part in Path(name).parts:  # which may begin at the root
            folder = _above(folder) if part == ".." else folder / part
        try:
            names = names_in(folder)
        except InputError as error:
            notes.append(str(error))
            continue
        weights = [n for n in names if any(fnmatchcase(n, glob) for glob in trainer.weights)]
        place = _Place(folder, name, [n for n in weights if is_whole(folder / n)])
        checkpoints = _of_this_training(trainer, log_path, place.checkpoints(trainer, log))
        rivals = _rivals(trainer, log_path, base, name) if checkpoints.files else ""
        if rivals:
            notes.append(
                f"the checkpoints in {folder} are not matched with steps, because {rivals}: if "
                "they are of this run, give --checkpoints"
            )
        elif checkpoints.files:
            return replace(checkpoints, notes=(*notes, *checkpoints.notes))
        elif ".." not in name:
            unmatched += [str(folder / name) for name in place.weights]
            notes += checkpoints.notes
    if not notes and unmatched:
        notes = [_unmatched(unmatched)]
    return Checkpoints({}, tuple(notes))


def _unmatched(paths: Sequence[str]) -> str:
    if not any(letter.isdigit() for path in paths for letter in Path(path).stem):
        beside = f"the names of checkpoints beside the log ({some(paths)})"
        return f"{beside} say no step: none has a path"
    return (
        f"no name of a checkpoint fits a step of the log for sure ({some(paths)}): if they are "
        "of its steps, say which number they carry, as in --checkpoints 'model-{epoch+1}.pt' if it "
        "is one more than in the log, 'model-{epoch}.pt' if it is the same"
    )


@dataclass(frozen=True)
class _Place:
    """A folder of checkpoints, its name from the folder of the run, and the names in it."""

    folder: Path
    name: str
    weights: Sequence[str]

    def checkpoints(self, trainer: Trainer, log: LoggedSteps) -> Checkpoints:
        """Those of the log's steps: by the trainer's names, or by names of the user's own."""
        texts = [text for text in trainer.checkpoints if log.index or "{index}" not in text]
        texts = [text.replace("{index}", log.index) for text in texts]
        numbered = self._numbered(texts)
        matches = log.match(numbered)
        texts = [text.replace("{step+1}", "{step}") for text in texts if "{step+1}" in text]
        older = log.match(self._numbered(texts))
        if len(older.files) >= _FEWEST_OLDER and not older.unlogged and not older.shared:
            if not matches.files:
                return older.one_per_step()
            paths = [path for _, paths in sorted(older.files.items()) for path in paths]
            return self._asked(
                paths, "it is not clear from where names count",
                "*step={step+1}*.ckpt", "they count one step more than the log, as Lightning's do",
                "*step={step}*.ckpt",
            )  # fmt: skip
        if numbered or not trainer.named_by_user:
            return matches.one_per_step()
        return self._by_family(log)

    def _numbered(self, texts: Sequence[str]) -> list[Numbered]:
        """Names with the numbers that the first pattern of their form reads in them."""
        found: dict[str, Numbered] = {}
        for pattern in map(parse, texts):
            for name in self.weights:
                if name not in found and (numbers := pattern.read_name(name)) is not None:
                    found[name] = Numbered(str(self.folder / name), numbers, pattern.offsets)
        return [found[name] for name in self.weights if name in found]

    def _by_family(self, log: LoggedSteps) -> Checkpoints:
        """By names that differ in one number, if all fit the log in one way of counting only."""
        related = families(self.weights)
        fits = [one for family in related if (one := self._proven(family, log)) is not None]
        if len(fits) == 1:
            return fits[0]
        if not related:
            return Checkpoints({})
        names, template = [*related[0][1]], related[0][0]
        which = "several kinds of names fit" if fits else "it is not clear from where names count"
        return self._asked(
            names, which, template.replace("{}", "{epoch+1}"),
            "they count epochs from one more than the log", template.replace("{}", "{epoch}"),
        )  # fmt: skip

    def _asked(
        self, paths: Sequence[str], why: str, more: str, if_more: str, as_logged: str
    ) -> Checkpoints:
        more, as_logged = (
            os.path.normpath(os.path.join(self.name, name)) for name in (more, as_logged)
        )
        note = (
            f"{some(paths)} are not matched with steps, because {why}: give --checkpoints "
            f"{more!r} if {if_more}, {as_logged!r} if as the log does"
        )
        return Checkpoints({}, (note,))

    def _proven(self, family: Family, log: LoggedSteps) -> Checkpoints | None:
        readings: dict[tuple[tuple[int, str], ...], int] = {}
        for axis in ("step", "epoch") if log.epochs else ("epoch",):
            for offset in (0, 1, -1):
                numbered = [
                    Numbered(str(self.folder / name), {axis: number - offset}, {axis: offset})
                    for name, number in family[1].items()
                ]
                matches = log.match(numbered)
                files = tuple((step, paths[0]) for step, paths in sorted(matches.files.items()))
                if len(files) == len(numbered):
                    readings.setdefault(files, max(matches.aheads))
        if len(readings) != 1:
            return None
        ((found, ahead),) = readings.items()
        return Checkpoints(dict(found), ahead=ahead)


# Names that are the same but for one number, which ``{}`` marks, and that number of each.
Family = tuple[str, dict[str, int]]


def families(names: Iterable[str]) -> list[Family]:
    """Sort names into families; names without relatives are left out."""
    by_form: dict[str, list[str]] = defaultdict(list)
    for name in names:  # marked by what no name can hold
        by_form[_ANY_NUMBER.sub(lambda number: "/" if number[1] else "\0", name)].append(name)
    return [family for alike in by_form.values() if (family := _family(alike)) is not None]


def _family(names: Sequence[str]) -> Family | None:
    """The family of names of one form, if one whole number varies and may count epochs."""
    wholes = [[match for match in _ANY_NUMBER.finditer(name) if match[2]] for name in names]
    columns = zip(*wholes, strict=True)
    varying = [column for column in columns if len({int(match[0]) for match in column}) > 1]
    if len(varying) != 1:
        return None
    numbers, first = [int(match[0]) for match in varying[0]], varying[0][0]
    if len(set(numbers)) < len(numbers):
        return None
    if _BEFORE.search(names[0][: first.start()]) or _AFTER.match(names[0][first.end() :]):
        return None

    def part(number: re.Match[str]) -> str:
        return "{}" if number.start() == first.start() else "*" if number[1] else number[0]

    return _ANY_NUMBER.sub(part, names[0]), dict(zip(names, numbers, strict=True))


def _of_this_training(trainer: Trainer, log_path: Path, checkpoints: Checkpoints) -> Checkpoints:
    """Without those whose own account of the training is another than the log."""
    if not trainer.state:
        return checkpoints
    from checkwise.readers.transformers import of_another_training

    folders = [Path(path) for path in checkpoints.files.values()]
    others = [str(folder) for folder in of_another_training(folders, trainer.state, log_path)]
    if not others:
        return checkpoints
    note = f"{some(others)} {'is' if len(others) == 1 else 'are'} left out: by the {trainer.state}"
    return replace(
        checkpoints,
        files={step: path for step, path in checkpoints.files.items() if path not in others},
        notes=(*checkpoints.notes, f"{note} in it, of another training"),
    )


def _rivals(trainer: Trainer, log_path: Path, base: Path, name: str) -> str:
    """Why checkpoints may be of another log; "" where they are not, or the log says where."""
    if os.path.isabs(name):
        return ""
    if ".." in name and _has_neighbours(log_path, base):
        return f"other logs lie beside {base}"
    if ".." in name and (other := _another_log(_above(base), log_path)):
        return f"{other} lies there as well"
    if not trainer.state and log_path.is_file() and (other := _another_log(base, log_path)):
        return f"they could be of {short_name(str(other))} as well"
    return ""


def _has_neighbours(log_path: Path, base: Path) -> bool:
    """Whether folders beside the log's hold logs as well, whose checkpoints could be confused."""
    start = "events" if log_path.is_dir() else log_path.name.split(".")[0]
    try:
        folders = [_above(base) / name for name in names_in(_above(base))]
        beside = (name for f in folders if not f.samefile(base) for name in names_in(f))
        return any(name.split(".")[0] == start for name in beside)
    except (InputError, OSError):
        return True


def _another_log(folder: Path, log_path: Path) -> Path | None:
    """The first other log in a folder whose trainer saves checkpoints there."""
    try:
        files = [folder / name for name in names_in(folder)]
    except InputError:
        return None
    return next((file for file in files if file != log_path and _saves(file)), None)


def _saves(path: Path) -> bool:
    try:
        if path.suffix.lower() == ".json":
            from checkwise.readers import json_log

            return json_log.is_log(path)
        is_log = path.suffix.lower() in _TABLES and csv_log.is_log(path)
        return is_log and bool(trainer_of(header_of(path)).folders)
    except (InputError, OSError):
        return False


def _above(folder: Path) -> Path:
    """The folder around a folder, without a look behind links where none is needed."""
    is_plain = folder.name not in ("", "..") and not folder.is_symlink()
    return folder.parent if is_plain else folder.resolve().parent


def some(paths: Sequence[str]) -> str:
    """The names of the first few paths, and how many there are besides."""
    return shortened([short_name(path) for path in paths], 3, _LONGEST_NAME)


def short_name(path: str) -> str:
    """The last name of a path, on one line and not too long."""
    name = printable(os.path.basename(path))
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
