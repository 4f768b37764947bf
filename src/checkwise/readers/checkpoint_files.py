"""Checkpoints by a pattern of the user's: ``--checkpoints 'weights.{epoch+1}.keras'``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from checkwise.errors import InputError
from checkwise.readers import csv_log, json_log
from checkwise.readers.checkpoint_names import (
    INDEX,
    NUMBERS,
    Checkpoints,
    LoggedSteps,
    Matches,
    Numbered,
    Pattern,
    above,
    families,
    is_whole,
    matching,
    named_folder,
    names_in,
    newest,
    parse,
    proven,
    shared_note,
    short_name,
    some,
)
from checkwise.readers.log import Trainer
from checkwise.readers.transformers import of_another_training


def by_pattern(pattern: Pattern, base: Path, log: LoggedSteps) -> Checkpoints:
    """The checkpoints that a pattern matches, below the log's folder or the current one.

    Raises:
        InputError: it matches no step of the log, or one step twice, or is one off.
    """
    files = matching(pattern, base)
    if not files and not pattern.is_absolute:
        files = matching(pattern, Path())
    matches = log.match(files)
    if not matches.files:
        raise _nothing_matches(pattern, base, log, matches)
    _check_count(pattern, files, log, matches)
    chosen, notes = {}, []
    for step, paths in matches.files.items():
        chosen[step], note = newest(paths)
        if chosen[step] is None:
            raise InputError(
                f"Expected one checkpoint of step {step}, but --checkpoints {pattern.text!r} "
                f"matches {some(paths)}: write more of the name, so that it matches one.",
                code="ambiguous",
            )
        notes += [note] if note else []
    notes += shared_note(matches)
    counting = {number.name: number.offset for number in pattern.numbers if log.are(number.name)}
    ahead = counting.get("step", counting.get("epoch", 0))
    return Checkpoints({s: p for s, p in chosen.items() if p}, tuple(notes), ahead=ahead)


def _nothing_matches(
    pattern: Pattern, base: Path, log: LoggedSteps, matches: Matches
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
    folder = named_folder(pattern, base)
    names = names_in(folder)
    there = f"which holds {some(names)}" if names else "which is empty or not there"
    return InputError(
        f"{expected}, but there are none in {folder}, {there}: check the pattern, which begins at "
        "the folder of the log or at the current one.",
        code="missing",
    )


def _check_count(
    pattern: Pattern, files: Sequence[Numbered], log: LoggedSteps, matches: Matches
) -> None:
    """Refuse a number that is one off: Keras counts epochs in names from 1, in logs from 0."""
    if len(pattern.numbers) != 1 or pattern.numbers[0].is_explicit or not matches.unlogged:
        return
    name = pattern.numbers[0].name
    for offset in (1, -1):
        shifted = [Numbered(f.path, {name: f.numbers[name] - offset}) for f in files]
        if not log.match(shifted).unlogged:
            raise InputError(
                f"Expected {{{name}}} to count as the log does, but {some(matches.unlogged)} fits "
                f"only if names are {abs(offset)} {'above' if offset > 0 else 'below'} the log: "
                f"write {{{name}{offset:+d}}}, or {{{name}+0}} if they are not.",
                code="differs",
            )


_TABLES: Final = (".csv", ".log", ".tsv", ".txt")
_JSON: Final = ".json"


def has_neighbours(log_path: Path, base: Path) -> bool:
    """Whether folders beside the log's hold logs as well, whose checkpoints could be confused."""
    start = "events" if log_path.is_dir() else log_path.name.split(".")[0]
    try:
        return any(
            name.split(".")[0] == start
            for folder in names_in(above(base))
            if not (above(base) / folder).samefile(base)
            for name in names_in(above(base) / folder)
        )
    except (InputError, OSError):
        return True


def another_log(folder: Path, log_path: Path) -> Path | None:
    """The first other log in a folder whose trainer saves checkpoints there."""
    try:
        files = [folder / name for name in names_in(folder)]
    except InputError:
        return None
    return next((file for file in files if file != log_path and _saves(file)), None)


def _saves(path: Path) -> bool:
    suffix = path.suffix.lower()
    try:
        if not path.is_file():
            return False
        if suffix == _JSON:
            return json_log.recognises_file(path)
        if suffix not in _TABLES or not csv_log.recognises(path):
            return False
        return bool(csv_log.trainer_of(csv_log.header_of(path)).folders)
    except (InputError, OSError):
        return False


def steps_to_choose_from(
    steps: Sequence[int], checkpoints: Checkpoints, *, include_unsaved: bool
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The steps that stay, and what to say about the others.

    All stay where no step has a checkpoint: then nothing tells what was saved.

    Args:
        steps: the steps of the log.
        checkpoints: the checkpoints beside it.
        include_unsaved: whether steps without a checkpoint stay as well.

    Example:
        >>> steps_to_choose_from([1, 2], Checkpoints({2: "b.pt"}),
        ...                      include_unsaved=False)[0]
        (2,)
    """
    unsaved = [step for step in steps if step not in checkpoints.files]
    if not unsaved or len(unsaved) == len(steps):
        return tuple(steps), ()
    counts = f"{len(unsaved)} of {len(steps)} logged steps have no checkpoint"
    if include_unsaved:
        return tuple(steps), (f"{counts}; they may be chosen, because of --include-unsaved",)
    note = f"{counts} and are left out (--include-unsaved keeps them)"
    return tuple(step for step in steps if step in checkpoints.files), (note,)


_FEWEST_OLDER: Final = 2  # one name may fit an older version's count by chance


def by_trainer(trainer: Trainer, log_path: Path, base: Path, log: LoggedSteps) -> Checkpoints:
    """The checkpoints in the first folder that has any of the log's steps.

    Args:
        trainer: what wrote the log.
        log_path: the log.
        base: the folder of the run.
        log: its steps.
    """
    unmatched: list[str] = []
    notes: list[str] = []
    for name in trainer.folders:
        folder = _folder(base, name)
        try:
            weights = _weights(trainer, folder)
        except InputError as error:
            notes.append(str(error))
            continue
        checkpoints = _in_folder(trainer, _Place(folder, name, weights), log)
        if trainer.state:
            checkpoints = _of_this_training(trainer, log_path, checkpoints)
        rivals = _rivals(trainer, log_path, base, name) if checkpoints.files else ""
        if rivals:
            notes.append(
                f"the checkpoints in {folder} are not matched with steps, because {rivals}: if "
                "they are of this run, give --checkpoints"
            )
        elif checkpoints.files:
            return replace(checkpoints, notes=(*notes, *checkpoints.notes))
        elif ".." not in name:
            unmatched += [str(folder / name) for name in weights]
            notes += checkpoints.notes
    if unmatched and not notes:
        notes.append(_unmatched_note(unmatched))
    return Checkpoints({}, tuple(notes))


def _unmatched_note(paths: Sequence[str]) -> str:
    if not any(letter.isdigit() for path in paths for letter in Path(path).stem):
        return (
            f"the names of checkpoints beside the log ({some(paths)}) say no step: none has a path"
        )
    return (
        f"no name of a checkpoint fits a step of the log for sure ({some(paths)}): if they are of "
        "its steps, say which number they carry, as in --checkpoints 'model-{epoch+1}.pt' if it is "
        "one more than in the log, 'model-{epoch}.pt' if it is the same"
    )


def _folder(base: Path, name: str) -> Path:
    folder = base
    for part in name.split("/"):
        folder = above(folder) if part == ".." else folder / part
    return folder


def _weights(trainer: Trainer, folder: Path) -> list[str]:
    names = (n for n in names_in(folder) if any(fnmatchcase(n, glob) for glob in trainer.weights))
    return [name for name in names if is_whole(folder / name)]


def _rivals(trainer: Trainer, log_path: Path, base: Path, name: str) -> str:
    """Why checkpoints may be of another log; "" where they are not."""
    if ".." in name and has_neighbours(log_path, base):
        return f"other logs lie beside {base}"
    if ".." in name and (other := another_log(above(base), log_path)):
        return f"{other} lies there as well"
    if not trainer.state and log_path.is_file() and (other := another_log(base, log_path)):
        return f"they could be of {short_name(str(other))} as well"
    return ""


def _of_this_training(trainer: Trainer, log_path: Path, checkpoints: Checkpoints) -> Checkpoints:
    """Without those whose own account of the training is another than the log."""
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


@dataclass(frozen=True)
class _Place:
    """A folder of checkpoints, its name from the folder of the run, and the names in it."""

    folder: Path
    name: str
    weights: Sequence[str]

    def pattern(self, name: str) -> str:
        """What --checkpoints is given for a name in the folder."""
        return os.path.normpath(os.path.join(self.name, name))


def _in_folder(trainer: Trainer, place: _Place, log: LoggedSteps) -> Checkpoints:
    """The checkpoints of one folder: by the trainer's names, or by names of the user's own."""
    numbered = _read_names(trainer.checkpoints, place)
    matches = log.match(numbered)
    older = log.match(_read_names(trainer.older, place))
    if len(older.files) >= _FEWEST_OLDER and not older.unlogged and not older.shared:
        if matches.files:
            return Checkpoints({}, (_unclear_steps(place, older),))
        return _with_notes(older)
    if matches.files:
        ahead = (
            log.index_ahead if any(f"{{{INDEX}}}" in text for text in trainer.checkpoints) else 0
        )
        return replace(_with_notes(matches), ahead=ahead + _counts_one_more(trainer, matches))
    if numbered or not trainer.named_by_user:
        return Checkpoints({}, tuple(shared_note(matches)))
    return _by_family(place, log)


def _counts_one_more(trainer: Trainer, matches: Matches) -> bool:
    patterns = [parse(text) for text in trainer.checkpoints if "{step+1}" in text]
    names = [os.path.basename(path) for paths in matches.files.values() for path in paths]
    return any(pattern.read_name(name) is not None for pattern in patterns for name in names)


def _unclear_steps(place: _Place, matches: Matches) -> str:
    paths = [path for paths in matches.files.values() for path in paths]
    return (
        f"{some(paths)} are not matched with steps, because it is not clear from where names "
        f"count: give --checkpoints {place.pattern('*step={step+1}*.ckpt')!r} if they count one "
        f"step more than the log, as Lightning's do, {place.pattern('*step={step}*.ckpt')!r} if "
        "as the log does"
    )


def _read_names(texts: Sequence[str], place: _Place) -> list[Numbered]:
    """Names with the numbers that the first pattern of their form reads in them."""
    patterns = [parse(text, known=(*NUMBERS, INDEX)) for text in texts]
    checkpoints = []
    for name in place.weights:
        readings = (pattern.read_name(name) for pattern in patterns)
        numbers = next((numbers for numbers in readings if numbers is not None), None)
        if numbers is not None:
            checkpoints.append(Numbered(str(place.folder / name), numbers))
    return checkpoints


def _with_notes(matches: Matches) -> Checkpoints:
    files, notes = {}, []
    for step, paths in matches.files.items():
        path, note = newest(paths)
        # Names by the trainer's own rule hold the same step: the plainest will do.
        files[step] = path or min(paths, key=lambda path: (len(path), path))
        notes += [note] if note else []
        if path is None:
            notes.append(f"step {step} has several checkpoints: {short_name(files[step])} is taken")
    return Checkpoints(files, (*notes, *shared_note(matches)))


def _by_family(place: _Place, log: LoggedSteps) -> Checkpoints:
    related = families(place.weights)
    fitting = [fit for f in related if (fit := proven(f, str(place.folder), log)) is not None]
    if len(fitting) == 1:
        files, ahead = fitting[0]
        return Checkpoints(files, ahead=ahead)
    if not related:
        return Checkpoints({})
    first = related[0]
    from_one, as_logged = (
        place.pattern(first.suggestion(number)) for number in ("{epoch+1}", "{epoch}")
    )
    which = "several kinds of names fit" if fitting else "it is not clear from where names count"
    return Checkpoints(
        {},
        (
            f"{some([name for name, _ in first.numbers])} are not matched with steps, because "
            f"{which}: give --checkpoints {from_one!r} if they count epochs from one more than "
            f"the log, {as_logged!r} if as the log does",
        ),
    )


__all__ = ["Checkpoints", "find_checkpoints"]
_CHECKPOINT_FOLDER: Final = re.compile(r"checkpoint-[0-9]+")


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
    base = _run_folder(log_path)
    log = LoggedSteps(steps, epochs)
    named = _told(told, steps, base)
    if pattern is not None:
        by_name = by_pattern(parse(os.path.expanduser(pattern)), base, log)
        return replace(by_name, files={**by_name.files, **named})
    if named:
        return Checkpoints(named)
    if told:
        note = f"none of the {len(told)} checkpoints that the log names is there "
        return Checkpoints({}, (f"{note}({some(list(told.values()))})",))
    return by_trainer(trainer, log_path, base, log)


def _run_folder(log_path: Path) -> Path:
    """The folder of a log; around it for a log that is part of a checkpoint."""
    folder = log_path if log_path.is_dir() else log_path.parent
    return above(folder) if _CHECKPOINT_FOLDER.fullmatch(folder.resolve().name) else folder


def _told(told: Mapping[int, str], steps: Sequence[int], base: Path) -> dict[int, str]:
    files = {}
    for step in steps:
        name = told.get(step)
        for path in (os.path.join(base, name), name) if name else ():
            if is_whole(Path(path)):
                files[step] = path
                break
    return files
