"""Several processes that decide as one: gather what each has seen, let the first one decide."""

from __future__ import annotations

import os
from collections.abc import Callable, Container
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from checkwise.errors import CheckwiseError, InputError
from checkwise.store import (
    KERAS,
    Home,
    delete_checkpoint,
    real_place,
    state_of,
    sync_checkpoint,
    sync_folder,
)

Result = TypeVar("Result")


def gathered(mine: Result) -> list[Result]:
    """What every process has, in the order of their ranks."""
    import torch.distributed as distributed

    if not distributed.is_available() or not distributed.is_initialized():
        raise InputError(
            "Expected processes that torch.distributed connects, but it is not initialised: use a "
            "strategy such as 'ddp', or one process.",
            code="system",
        )
    everywhere: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(everywhere, mine)
    return everywhere


def decided_once(trainer: Any, decide: Callable[[], Result]) -> Result:
    """What the first process decides, in every process; an error there is an error everywhere.

    Every process waits here for the first one.
    """
    answer: tuple[Result | None, Exception | None] = (None, None)
    if trainer.is_global_zero:
        try:
            answer = (decide(), None)
        except Exception as error:
            if trainer.world_size == 1:
                raise
            answer = (None, error)
    failed = trainer.strategy.broadcast(None if answer[1] is None else str(answer[1]))
    if answer[1] is not None:
        raise answer[1]
    if failed is not None:
        raise CheckwiseError(failed)
    result: Result = trainer.strategy.broadcast(answer[0])
    return answer[0] if trainer.is_global_zero else result  # type: ignore[return-value]


JOURNAL: Final = "checkwise.jsonl"
_ANNOUNCED: Final = ".saving"
_PART: Final = ".part"
LAST: Final = "last.ckpt"


@dataclass(frozen=True)
class Place:
    """Where a checkpoint is saved.

    Args:
        path: the name that it gets when it is whole.
    """

    path: Path

    @property
    def announcement(self) -> Path:
        """A file that says that ``path`` is about to appear, and then in which state."""
        return self.path.with_name(f".{self.path.name}{_ANNOUNCED}")

    @property
    def part(self) -> Path:
        """The name under which it is written."""
        name = self.path.name
        ending = next((ending for ending in KERAS if name.endswith(ending)), "")
        return self.path.with_name(f".{name}{_PART}{ending}")

    def announce(self) -> None:
        """Before the save."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.announcement.touch()

    def finish(self) -> None:
        """After the save: sync it and give it its name."""
        sync_checkpoint(self.part)
        with self.announcement.open("w") as file:
            file.write(state_of(self.part))
            file.flush()
            os.fsync(file.fileno())
        self.part.replace(self.path)
        sync_folder(self.path.parent)

    def settle(self) -> None:
        """After the journal knows the file and ``last.ckpt`` leads to it."""
        self.announcement.unlink(missing_ok=True)

    def abandon(self, home: Home) -> None:
        """After a save that failed, or was cut off."""
        delete_checkpoint(self.part, home)
        self.announcement.unlink(missing_ok=True)

    @property
    def is_as_announced(self) -> bool:
        """Whether a checkpoint is there, and it is the one that was saved."""
        with suppress(OSError, UnicodeDecodeError):
            return os.path.lexists(self.path) and state_of(self.path) == (
                self.announcement.read_text()
            )
        return False


def clean_up(folder: Path, home: Home, goes_on_from: Container[Path | None]) -> bool:
    """Delete what a save left that was cut off; whether a whole checkpoint was among it.

    A whole checkpoint that training does not go on from is saved again when it gets there.

    Args:
        folder: where the checkpoints are.
        home: what is outside of it stays.
        goes_on_from: the checkpoints from which training goes on.
    """
    deleted = False
    for announcement in folder.rglob(f".*{_ANNOUNCED}"):
        name = announcement.name[1 : -len(_ANNOUNCED)]
        if _is_of_another(announcement, folder) or name in ("", ".", ".."):
            continue
        place = Place(announcement.with_name(name))
        if home.objection(place.path):  # no checkpoint is called so
            continue
        if real_place(place.path) not in goes_on_from and place.is_as_announced:
            delete_checkpoint(place.path, home)
            deleted = True
        place.abandon(home)
    return deleted


def _is_of_another(announcement: Path, folder: Path) -> bool:
    """Whether it is in a folder below that has a journal of its own, which may be in use."""
    between = announcement.parent.relative_to(folder).parts
    return any(
        folder.joinpath(*between[:depth], JOURNAL).exists() for depth in range(1, len(between) + 1)
    )


def last_link(folder: Path, name: str = LAST) -> Path:
    """``last.ckpt``, or ``last-v1.ckpt`` … where that is a file of somebody else."""
    link, version = folder / name, 0
    stem, dot, ending = name.partition(".")
    while os.path.lexists(link) and not link.is_symlink():
        version += 1
        link = folder / f"{stem}-v{version}{dot}{ending}"
    return link


def point(link: Path, target: Path) -> None:
    """Make ``link`` a link to ``target``, in place of the older one at one stroke."""
    hidden = link.with_name(f".{link.name}{_PART}")
    hidden.unlink(missing_ok=True)
    hidden.symlink_to(os.path.relpath(target, link.parent))
    hidden.replace(link)
    sync_folder(link.parent)
