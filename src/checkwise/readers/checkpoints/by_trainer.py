"""Checkpoints by what a trainer calls them, in the folders where it puts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
from checkwise.readers.checkpoints.patterns import INDEX, NUMBERS, parse
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
        checkpoints = _in_folder(trainer, folder, weights, log)
        if checkpoints.files and ".." in name and _has_neighbours(log_path, base):
            notes.append(
                f"the checkpoints in {folder} are not matched with steps, because other logs lie "
                f"beside {base}: if they are of this run, give --checkpoints"
            )
        elif checkpoints.files:
            return replace(checkpoints, notes=(*notes, *checkpoints.notes))
        elif ".." not in name:
            unmatched += [str(folder / name) for name in weights]
            notes += checkpoints.notes
    if unmatched and not notes:
        notes.append(_unmatched_note(unmatched))
    return Checkpoints({}, tuple(notes), looked=bool(unmatched))


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


def _has_neighbours(log_path: Path, base: Path) -> bool:
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


def _in_folder(
    trainer: Trainer, folder: Path, weights: Sequence[str], log: LoggedSteps
) -> Checkpoints:
    """The checkpoints of one folder: by the trainer's names, or by names of the user's own."""
    numbered = _read_names(trainer.checkpoints, folder, weights)
    matches = log.match(numbered)
    if not matches.files:
        older = _read_names(trainer.older, folder, weights)
        fits = log.match(older)
        if len(fits.files) >= _FEWEST_OLDER and not fits.unlogged and not fits.shared:
            matches = fits
    if matches.files:
        return _with_notes(matches)
    if numbered or not trainer.named_by_user:
        return Checkpoints({}, tuple(shared_note(matches)))
    return _by_family(folder, weights, log)


def _read_names(texts: Sequence[str], folder: Path, weights: Sequence[str]) -> list[Numbered]:
    """Names with the numbers that the first pattern of their form reads in them."""
    patterns = [parse(text, known=(*NUMBERS, INDEX)) for text in texts]
    checkpoints = []
    for name in weights:
        readings = (pattern.read_name(name) for pattern in patterns)
        numbers = next((numbers for numbers in readings if numbers is not None), None)
        if numbers is not None:
            checkpoints.append(Numbered(str(folder / name), numbers))
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
    return Checkpoints(files, (*notes, *shared_note(matches)), looked=True)


def _by_family(folder: Path, weights: Sequence[str], log: LoggedSteps) -> Checkpoints:
    related = families(weights)
    fitting = [files for f in related if (files := proven(f, str(folder), log)) is not None]
    if len(fitting) == 1:
        return Checkpoints(fitting[0], looked=True)
    if not related:
        return Checkpoints({})
    first = related[0]
    which = "several kinds of names fit" if fitting else "it is not clear from where names count"
    return Checkpoints(
        {},
        (
            f"{some([name for name, _ in first.numbers])} are not matched with steps, because "
            f"{which}: give --checkpoints {first.suggestion('{epoch+1}')!r} if they count epochs "
            f"from one more than the log, {first.suggestion('{epoch}')!r} if as the log does",
        ),
    )
