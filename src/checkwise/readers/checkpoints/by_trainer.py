"""Checkpoints by what a trainer calls them, in the folders where it puts them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from checkwise.errors import InputError
from checkwise.readers.checkpoints.families import families, proven
from checkwise.readers.checkpoints.folders import Numbered, above, is_whole, names_in
from checkwise.readers.checkpoints.logged_steps import LoggedSteps, Matches
from checkwise.readers.checkpoints.names import (
    Checkpoints,
    newest,
    shared_note,
    short_name,
    some,
)
from checkwise.readers.checkpoints.other_logs import another_log, has_neighbours
from checkwise.readers.checkpoints.patterns import INDEX, NUMBERS, parse
from checkwise.readers.logs.state_history import of_another_training
from checkwise.readers.logs.trainers import Trainer

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
        f"no name of a checkpoint fits a step of the log ({some(paths)}): if they are of its "
        "steps, say which number they carry, as in --checkpoints 'model-{epoch}.pt'"
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
