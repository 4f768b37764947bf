"""Attempts at a run: each worker writes into a folder of its own, and one of them is published.

    runs/<run>/                 published: complete; it appears by one rename of an attempt
    attempts/<run>/lease        who seems to work on the run
    attempts/<run>/<token>/     one worker's attempt, written by that worker alone
    attempts/<run>/<token>.log  what it printed

Nothing here depends on a check that still holds a moment later: a worker may be stopped between any
two steps, go on hours later, or see what others did with a delay. So two workers may train the same
run. Each writes its own files, a rename onto a published run fails, and the loser removes its
attempt.
"""

from __future__ import annotations

import errno
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from checkwise.errors import InputError
from checkwise.store import (
    ATTEMPT_NAME,
    ATTEMPTS_FOLDER,
    DONE_FILE,
    LEASE_FILE,
    RESUME_FILE,
    RUN_FILE,
    RUNS_FOLDER,
    SOURCE_FILE,
    Fingerprint,
    attempts_folder,
)
from checkwise.study.folder import disk
from checkwise.study.folder.run_writing import check_start, damaged

_NEW: Final = ".new"
_REMOVED: Final = ".removed"
_STATE: Final = Path(RESUME_FILE).parts[0]
_TAKEN: Final = (errno.ENOTEMPTY, errno.EEXIST)


@dataclass(frozen=True)
class Saved:
    """What a saved state builds on: the start of every journal, and whole files.

    Files in ``droppable`` may be gone: records after the state have dropped them.
    """

    updates: int
    journals: Mapping[str, Fingerprint]
    files: Sequence[str] = ()
    droppable: frozenset[str] = frozenset()


class Training(Protocol):
    """Trains a run in the folder of an attempt."""

    def saved(self, folder: Path) -> Saved | None:
        """The last saved state in an attempt's folder."""

    def train(self, folder: Path) -> bool:
        """Continue from that state to the end, and write ``done``; False if asked to stop."""


def published(run: Path) -> bool:
    return disk.has_file(run, DONE_FILE)


def attempts_at(place: Path) -> list[Path]:
    """The folders of all attempts at a run, the one with the longest journal first."""
    folders = [place / name for name in disk.names(place) or () if ATTEMPT_NAME.fullmatch(name)]
    # All journals of a run begin alike, so the longest has the most records.
    return sorted(folders, key=lambda folder: -disk.size(folder, SOURCE_FILE))


def continue_run(run: Path, training: Training) -> bool:
    """Make a new attempt at a run from the furthest saved state, and publish it when it is done.

    Whether the run is published; False if the training was asked to stop, or another worker took
    the attempt away.
    """
    move_unfinished(run)
    place = attempts_folder(run)
    folders = attempts_at(place)
    for folder in folders:
        # Its worker ended between the mark and the rename.
        if disk.has_file(folder, DONE_FILE) and publish(folder, run):
            return True
    source = furthest(folders, training)
    for folder in folders:
        if folder != source:
            discard(folder, run)
    attempt = place / secrets.token_hex(16)
    if source is None:
        disk.make_folder(attempt)
    elif not _begin_from(source, attempt, training):
        return False
    try:
        whole = training.train(attempt)
    except BaseException as error:
        if _is_further(attempt, source, training):
            raise
        discard(attempt, run)
        if isinstance(error, InputError) and source is not None:
            raise _about(error, attempt, source) from error
        raise
    return whole and publish(attempt, run)


def _begin_from(source: Path, attempt: Path, training: Training) -> bool:
    """Make an attempt that continues another one; False if a worker took one of them away.

    It gets its name when it is whole: a state without the files that it names is no attempt.
    """
    new = attempt.with_name(f"{attempt.name}{_NEW}")
    disk.make_folder(new)
    try:
        bring_over(source, new, training)
        disk.rename(new, attempt)
    except FileNotFoundError:
        disk.remove_tree(new)
        return False
    except InputError as error:
        disk.remove_tree(new)
        if disk.has_file(source, RESUME_FILE):
            raise _about(error, new, source) from error
        return False
    return True


def _about(error: InputError, removed: Path, source: Path) -> InputError:
    """The error about files of an attempt that is removed, for the attempt that they came from."""
    return InputError(str(error).replace(str(removed), str(source)), code=error.code)


def furthest(folders: Sequence[Path], training: Training) -> Path | None:
    """The attempt whose saved state is furthest, or None if none has one."""
    with_state = [folder for folder in folders if disk.has_file(folder, RESUME_FILE)]
    if len(with_state) == 1:
        return with_state[0]
    updates: dict[Path, int] = {}
    fault: InputError | None = None
    for folder in with_state:
        try:
            saved = training.saved(folder)
        except InputError as error:
            fault = error
            continue
        if saved is not None:
            updates[folder] = saved.updates
    if fault is not None and not updates:
        raise fault
    return max(updates, key=lambda folder: updates[folder], default=None)


def bring_over(source: Path, attempt: Path, training: Training) -> None:
    """Put into a new attempt what the last saved state of another one builds on.

    The other worker may go on writing: the state is fixed first, then what it names is taken.
    Journals are copied to the length that it notes. Other files are never written in place, so
    both attempts share them. A ``FileNotFoundError`` says that another worker took one away.
    """
    disk.link(source, attempt, RESUME_FILE)
    if disk.has_file(source, RUN_FILE):
        disk.link(source, attempt, RUN_FILE)
    saved = training.saved(attempt)
    if saved is None:
        raise FileNotFoundError(errno.ENOENT, "taken away", str(attempt))
    for name, noted in saved.journals.items():
        disk.write_file(attempt, name, _start_of(source, name, noted))
    for name in saved.files:
        try:
            disk.link(source, attempt, name)
        except FileNotFoundError:
            if name not in saved.droppable:
                raise damaged(source / name, "removed") from None
    for folder in sorted({(attempt / name).parent for name in (RUN_FILE, *saved.files)}):
        disk.sync_folder(folder)


def _start_of(folder: Path, name: str, noted: Fingerprint) -> bytes:
    try:
        content = disk.read_start(folder, name, noted["bytes"])
    except FileNotFoundError:
        raise damaged(folder / name, "removed") from None
    check_start(folder / name, content, noted)
    return content


def publish(attempt: Path, run: Path) -> bool:
    """Make a complete attempt the run itself; whether the run is published, by this or another.

    If not, the attempt was taken away, or something else is in the run's place.
    """
    try:
        _put(attempt, run)
    except FileNotFoundError:
        # Taken away, or renamed by a file server whose answer was lost.
        return published(run)
    except OSError as error:
        if error.errno not in _TAKEN:
            raise
        if not published(run):
            return False
        discard(attempt, run)
    return True


def _put(attempt: Path, run: Path) -> None:
    disk.remove_tree(attempt / _STATE)
    disk.make_folder(run.parent)
    disk.rename(attempt, run)


def discard(attempt: Path, run: Path) -> None:
    """Remove an attempt that is not needed.

    It first gets another name: otherwise its worker could publish it while its files are deleted.
    If that worker has completed it meanwhile, it is published from here.
    """
    removed = attempt.with_name(f"{attempt.name}{_REMOVED}")
    with suppress(OSError):  # another worker removes it, or has published it
        disk.rename(attempt, removed)
        if disk.has_file(removed, DONE_FILE):
            with suppress(OSError):  # published already
                _put(removed, run)
                return
        disk.remove_tree(removed)


def clear(run: Path) -> None:
    """Remove the attempts that a published run has left; logs and reasons of failures stay."""
    place = attempts_folder(run)
    for name in disk.names(place) or ():
        if ATTEMPT_NAME.fullmatch(name):
            discard(place / name, run)
        elif name.endswith((_NEW, _REMOVED)):
            disk.remove_tree(place / name)
        elif name == LEASE_FILE or name.endswith(".tmp"):
            disk.remove_file(place / name)
    disk.remove_folder(place)


def clear_published(cohort: Path) -> None:
    """Remove what workers that were killed, or robbed, have left of runs that are published."""
    for name in disk.names(cohort / ATTEMPTS_FOLDER) or ():
        run = cohort / RUNS_FOLDER / name
        if published(run):
            clear(run)


def move_unfinished(run: Path) -> None:
    """Turn what lies in the place of a run without its mark into an attempt at it."""
    names = disk.names(run)
    if not names or DONE_FILE in names:
        return
    moved = attempts_folder(run) / secrets.token_hex(16)
    disk.make_folder(moved.parent)
    try:
        disk.rename(run, moved)
    except FileNotFoundError:
        return  # another worker was faster
    if disk.has_file(moved, DONE_FILE):
        # Since the look at its names another worker has published the run.
        publish(moved, run)


def _is_further(attempt: Path, source: Path | None, training: Training) -> bool:
    """Whether an attempt has saved a state beyond the one that it continued from."""
    with suppress(InputError, OSError):
        own = training.saved(attempt)
        before = None if source is None else training.saved(source)
        return own is not None and (before is None or own.updates > before.updates)
    return False
