"""Deleting checkpoints: in a home, after a newer one is safe on the disk, never half of one.

Whatever deletes by a name that was read from a file goes through here.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from checkwise.errors import InputError
from checkwise.store.whole_files import sync_file, sync_folder, sync_tree, writing

_BEING_DELETED: Final = ".being-deleted"
OUTSIDE: Final = "outside the folder; name it with --checkpoints"
_LEFT: Final = re.compile(rf"\..+\.[0-9a-f]{{8}}{re.escape(_BEING_DELETED)}", re.DOTALL)


@dataclass(frozen=True)
class Home:
    """Where this process may delete: folders that it was told of, never by a file that it read.

    Args:
        folders: what is not inside one of them stays, wherever links lead.
        spared: files and folders that stay, with what is in them and around them.
    """

    folders: tuple[Path, ...] = ()
    spared: tuple[Path, ...] = ()

    def objection(self, path: Path, state: str | None = None) -> str:
        """Why a file or folder stays, in a few words; empty where it may go, or is gone.

        ``state`` is from ``state_of``, when it was recorded; None where nothing was.
        """
        if self.is_part(path):
            return "holds the run"
        homes = [real_place(folder) for folder in self.folders]
        inside = all(any(place.is_relative_to(h) for h in homes) for place in _places(path))
        if not inside or path.name == "..":
            return OUTSIDE
        changed = state is not None and os.path.lexists(path) and state_of(path) != state
        return "changed since it was saved" if changed else ""

    def is_part(self, path: Path) -> bool:
        """Whether a path is a home, is spared, or is around one or in what is spared."""
        homes, spared = ([real_place(p) for p in paths] for paths in (self.folders, self.spared))
        return any(
            _is_shared(place, spared) or any(home.is_relative_to(place) for home in homes)
            for place in _places(path)
        )


@dataclass(frozen=True)
class SavedCheckpoint:
    """One saved checkpoint; ``why`` it stays, empty if it goes. Outside its home, 0 ``bytes``."""

    step: int
    path: Path
    bytes: int
    why: str


@dataclass(frozen=True)
class Pruning:
    """Every saved checkpoint of a run, in the order of steps."""

    checkpoints: tuple[SavedCheckpoint, ...]

    @property
    def stays(self) -> frozenset[int]:
        """Steps whose checkpoints stay."""
        return frozenset(saved.step for saved in self.checkpoints if saved.why)

    @property
    def goes(self) -> tuple[SavedCheckpoint, ...]:
        """The checkpoints to delete."""
        return tuple(saved for saved in self.checkpoints if not saved.why)

    @property
    def steps(self) -> tuple[int, ...]:
        """Steps whose checkpoints go."""
        return tuple(saved.step for saved in self.goes)

    @property
    def bytes(self) -> int:
        """What deleting them frees."""
        return sum({saved.path: saved.bytes for saved in self.goes}.values())


def plan_pruning(
    saved: Mapping[int, Path],
    reasons: Mapping[int, str],
    *,
    home: Home,
    states: Mapping[int, str] | None = None,
) -> Pruning:
    """Decide about every saved checkpoint; nothing is deleted here.

    ``saved`` is step → file or folder in the order of saving, ``reasons`` say which steps stay and
    why, and ``states`` are those of checkpoints when they were recorded: what changed since stays.
    """
    why = dict(reasons)
    for step, path in saved.items():
        if step not in why and (objection := home.objection(path, (states or {}).get(step))):
            why[step] = objection
    stay = {step: real_place(saved[step]) for step in saved if step in why}
    for step, path in saved.items():
        if step not in why and (bound := _bound_to(path, stay)):
            why[step] = bound
    return Pruning(
        tuple(
            SavedCheckpoint(
                step, path, 0 if home.objection(path) else size_of(path), why.get(step, "")
            )
            for step, path in sorted(saved.items())
        )
    )


def _bound_to(path: Path, stay: Mapping[int, Path]) -> str:
    """Why a checkpoint cannot go although no policy keeps it."""
    place = real_place(path)
    for step, other in stay.items():
        if _is_shared(place, (other,)):
            return f"part of step {step}"
    if path.suffix == ".index" and any(path.parent.glob(f"{path.stem}.data-*")):
        return "one of several files"
    with suppress(OSError), os.scandir(place.parent) as entries:
        links = sorted(Path(entry.path) for entry in entries if entry.is_symlink())
        for link in links:  # such as last.ckpt
            if real_place(link) == place:
                return f"{link.name} leads to it"
    return ""


def delete_others(
    saved: Mapping[int, Path],
    keep: Iterable[int],
    *,
    home: Home,
    states: Mapping[int, str] | None = None,
) -> tuple[int, ...]:
    """Delete the saved checkpoints of all steps but those to keep and the one saved last.

    The checkpoint saved last is synced first, so that a crash never takes the old one and leaves
    the new one unwritten. A folder is renamed before its files are deleted: a process that is
    killed meanwhile leaves no half checkpoint under its name. The choice has to be among ``keep``.

    Returns:
        The steps whose checkpoints were deleted.
    """
    for folder in {path.parent for path in saved.values()}:
        remove_leftovers(folder, home)
    newest = list(saved)[-1] if saved else None
    stay = {*keep, newest}
    places = [real_place(saved[step]) for step in saved if step in stay]
    going = {
        step: path
        for step, path in saved.items()
        if step not in stay
        and not _is_shared(real_place(path), places)
        and not home.objection(path, (states or {}).get(step))
    }
    if newest is None or not going:
        return ()
    if not os.path.lexists(saved[newest]):
        raise InputError(
            f"Expected the checkpoint of step {newest}, which was saved last, but there is nothing "
            f"at {saved[newest]}: nothing was deleted.",
            code="missing",
        )
    if not home.objection(saved[newest]):  # what a file names elsewhere is not even walked
        sync_checkpoint(saved[newest])
    for path in going.values():
        delete_checkpoint(path, home)
    return tuple(going)


def delete_checkpoint(path: Path, home: Home) -> None:
    """Delete a file or a folder; one that is gone already is fine."""
    if home.objection(path):
        folders = ", ".join(map(str, home.folders)) or "no folder"
        raise InputError(
            f"Expected to delete only inside {folders}, but {path} is not, or holds the run: it "
            "was left as it is.",
            code="outside",
        )
    path = real_place(path.parent) / path.name
    with writing(path.parent, then="what is left of it is deleted with the next"):
        try:
            if not stat.S_ISDIR(path.lstat().st_mode):
                path.unlink(missing_ok=True)
                return
            hidden = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}{_BEING_DELETED}")
            path.rename(hidden)
        except FileNotFoundError:
            return
        sync_folder(path.parent)
        shutil.rmtree(hidden)


def remove_leftovers(folder: Path, home: Home) -> None:
    """Delete what a killed process was deleting in a folder."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if (
                _LEFT.fullmatch(entry.name)
                and entry.is_dir(follow_symlinks=False)
                and not home.objection(Path(entry.path))
            ):
                shutil.rmtree(entry.path, ignore_errors=True)


def state_of(path: Path) -> str:
    """A digest of the name, size and time of each file in a folder, or of one file."""
    digest = hashlib.sha256()
    for file in sorted(_files(path)):
        with suppress(OSError):
            status = file.lstat()
            name = os.fsencode(file.relative_to(path))
            digest.update(b"%s\0%d\0%d\0" % (name, status.st_size, status.st_mtime_ns))
    return digest.hexdigest()[:16]


def sync_checkpoint(path: Path) -> None:
    """Flush a file, or everything in a folder, to the disk, and its name too."""
    with writing(path.parent, then="nothing was deleted"):
        sync_tree(path) if path.is_dir() else sync_file(path)
        sync_folder(path.parent)


def size_of(path: Path) -> int:
    """Bytes that deleting it frees; a file with another name elsewhere frees none."""
    size = 0
    for file in _files(path):
        with suppress(OSError):
            status = file.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
                size += status.st_size
    return size


def _files(path: Path) -> list[Path]:
    return [Path(folder, name) for folder, _, names in os.walk(path) for name in names] or [path]


def _places(path: Path) -> tuple[Path, Path]:
    """Where a path is and where it leads; these differ for a link."""
    return real_place(path.parent) / path.name, real_place(path)


def real_place(path: Path) -> Path:
    """Where a path leads, behind links."""
    return Path(os.path.realpath(path))


def _is_shared(place: Path, kept: Iterable[Path]) -> bool:
    """Whether a checkpoint that stays is the same file, in this folder, or around it."""
    return any(place.is_relative_to(other) or other.is_relative_to(place) for other in kept)
