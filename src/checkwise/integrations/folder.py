"""The checkpoints of a training in one folder: which is chosen, where each is saved, which stay.

For trainers whose checkpoint has to name the choice before it is written. A checkpoint goes through
``weigh`` (what would be chosen), ``plan`` (where it goes), the save itself, ``commit`` (it is
whole, and the journal learns of it) and ``prune``. Killed at any instant, ``open`` finds the chosen
checkpoint whole and removes what was half done.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from checkwise.errors import CheckwiseError, InputError
from checkwise.integrations.callbacks import Options
from checkwise.integrations.live import LiveSelector
from checkwise.integrations.tracker import measured
from checkwise.selection import LiveSelection, Selection
from checkwise.store import (
    KERAS,
    Home,
    delete_checkpoint,
    real_place,
    state_of,
    sync_checkpoint,
    sync_folder,
    writing,
)
from checkwise.words import counted

Name = Callable[[int | None], str]
JOURNAL: Final = "checkwise.jsonl"
LAST: Final = "last.ckpt"
_ANNOUNCED: Final = ".saving"
_PART: Final = ".part"
_SAFE: Final = "the choice and the newest checkpoint before are whole"


@dataclass(frozen=True)
class Outcome:
    """What follows if the entries of a checkpoint are recorded under a number.

    ``scores`` are of every step that may still be chosen then; ``logged`` are metrics by name.
    """

    number: int
    entries: Mapping[str, Any]
    choice: int | None
    scores: Mapping[int, float]
    logged: Mapping[str, float]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "entries": {}}  # only the process that decides writes them


@dataclass(frozen=True)
class Plan:
    """Under which number a checkpoint is recorded, and paths; an empty one where there is none.

    It is written to ``part`` and goes to ``path`` once it is whole. ``best`` is the chosen
    checkpoint, ``last`` the link to the newest, ``scores`` are by the path of what may be chosen.
    """

    number: int | None = None
    path: str = ""
    part: str = ""
    best: str = ""
    last: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)


class CheckpointFolder:
    """The checkpoints in one folder; only the first process of a training uses it.

    Args:
        options: how to choose, and what else stays.
        last: the name of the link to the newest checkpoint.
        go_on: how a user goes on with a training, in a few words.
    """

    def __init__(
        self,
        options: Options,
        *,
        last: str = LAST,
        go_on: str = 'use fit(…, ckpt_path="last")',
    ) -> None:
        self.options, self._last, self._go_on = options, last, go_on
        self._live: LiveSelector | None = None
        self._folder = Path()
        self._newest: int | None = None
        self._continues = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_live": None}  # a journal has one writer

    @property
    def selection(self) -> Selection | None:
        """The selection among the checkpoints so far."""
        return None if self._live is None else self._live.selection

    def members(self, k: int | None = None) -> tuple[int, ...]:
        """The steps of an average if training stopped now, all or ``k`` spread over them."""
        return () if self._live is None else self.options.members(self._live, k)

    def open(self, folder: Path, resumed: str | os.PathLike[str] | None = None) -> Plan:
        """Rebuild everything from the journal and finish what was cut off.

        ``resumed`` is the checkpoint that training goes on from.
        """
        self.close()
        self._folder = folder
        source = None if resumed is None else real_place(Path(resumed))
        live = self.options.selector(folder / JOURNAL)
        with self._writing():
            going_on = {real_place(last_link(folder, self._last)), source}
            cleaned = clean_up(folder, live.home, going_on)
        if cleaned:
            live.close()
            live = self.options.selector(folder / JOURNAL)  # which notes what is gone
        self._live = live
        self._continues = source is not None and source.is_relative_to(real_place(folder))
        self._link()
        found = [step for step, path in live.checkpoints.items() if real_place(path) == source]
        self._newest = found[0] if found else None
        self.prune(found)
        return self._planned(live.choice, _scores(live), live.checkpoints, self._newest)

    def begin(self, *, told: bool, planned: int, size: int) -> None:
        """Refuse records of another training, unless told that training goes on from elsewhere.

        Then say what disk ``planned`` checkpoints of some ``size`` may take, where that is known.
        """
        live = self._opened
        if told or self._continues:
            # From an older checkpoint, too: `_number` keeps what came after it.
            live.resume(max((*live.steps, *live.checkpoints), default=0))
        else:
            go_on = f"{self._go_on}, or choose another dirpath"
            check_new(live, self._folder / JOURNAL, go_on)
        self.options.say_disk(live, self._folder, planned=planned, size=size)

    def newest_file(self, folder: Path) -> Path | None:
        """The newest checkpoint in a folder, by its link; None if there is none."""
        link = last_link(folder, self._last)
        return link if link.is_symlink() and link.exists() else None

    def end(self, *, of_keras: bool = False) -> None:
        """At the end of a training, log the selection and say what is averaged."""
        if self._live is not None:
            self.options.end(self._live, self._folder, of_keras=of_keras)

    def close(self) -> None:
        """Let another process write to the journal."""
        if self._live is not None:
            self._live.close()

    def weigh(self, step: int, entries: Mapping[str, Any], *, again: bool = False) -> Outcome:
        """What is chosen if the checkpoint of a step is added; nothing is written.

        ``again``: it is the newest one, measured again.
        """
        number = self._newest if again and self._newest is not None else self._number(step)
        ahead = self._opened.preview(number, entries)
        logged: dict[str, float] = {}
        if (chosen := ahead.selection) is not None:
            run = chosen.trajectory
            row = run.steps.tolist().index(number)
            logged = measured(run, row, ahead.looks_at, self.options.log)
            logged |= {"choice": float(chosen.step), "score": chosen.score}
        return Outcome(number, entries, ahead.choice, _scores(ahead), logged)

    def plan(self, outcome: Outcome, name: Name) -> Plan:
        """Where a checkpoint goes, and what is chosen once it is there.

        ``name(None)`` is its file, ``name(1)`` … where that exists.
        """
        version: int | None = None
        while os.path.lexists(path := name(version)):
            version = (version or 0) + 1
        place = Place(Path(path))
        with self._writing():
            place.announce()
        files = {**self._opened.checkpoints, outcome.number: place.path}
        return self._planned(outcome.choice, outcome.scores, files, outcome.number, place)

    @contextmanager
    def saving(self, plan: Plan, *, first: bool = True) -> Iterator[None]:
        """Around the save itself: one that fails leaves nothing, and a full disk is said.

        ``first``: whether this is the process that decides.
        """
        try:
            with writing(Path(plan.path).parent, Path(plan.path).name, then=_SAFE):
                yield
        except BaseException:
            if first:
                with suppress(OSError, CheckwiseError):  # the next start deletes it
                    Place(Path(plan.path)).abandon(self._opened.home)
            raise

    def commit(self, outcome: Outcome, plan: Plan) -> None:
        """After the save: give the file its name, and write it down."""
        live, place = self._opened, Place(Path(plan.path))
        with self._writing():
            place.finish()
            live.saved(outcome.number, place.path)
            live.add(outcome.number, outcome.entries)
            self._newest = outcome.number
            self._link()
            place.settle()

    def prune(self, stay: Iterable[int] = ()) -> None:
        """Delete what can no longer be chosen, but never the newest."""
        self._opened.prune(self.options.policy(stay))

    def _number(self, step: int) -> int:
        """The number under which a step is recorded: its own, or else the next free one.

        A training that goes on from an older checkpoint reaches steps again. What is on disk of
        the earlier way there stays, and may be chosen as before.
        """
        live = self._opened
        if step not in live.checkpoints:
            return step
        taken = {*live.checkpoints, *live.steps}
        return next(number for number in itertools.count(step) if number not in taken)

    @property
    def _opened(self) -> LiveSelector:
        assert self._live is not None, "call open() first"
        return self._live

    def _writing(self) -> AbstractContextManager[None]:
        return writing(self._folder, "a checkpoint", then=_SAFE)

    def _link(self) -> None:
        """Let ``last.ckpt`` point to the newest checkpoint."""
        if paths := list(self._opened.checkpoints.values()):
            point(last_link(self._folder, self._last), paths[-1])

    def _planned(
        self,
        choice: int | None,
        scores: Mapping[int, float],
        files: Mapping[int, Path],
        number: int | None,
        place: Place | None = None,
    ) -> Plan:
        return Plan(
            number=number,
            path=str(place.path) if place else "",
            part=str(place.part) if place else "",
            best=str(files.get(choice, "")) if choice is not None else "",
            last=str(last_link(self._folder, self._last)) if files else "",
            scores={str(files[step]): score for step, score in scores.items() if step in files},
        )


def check_new(
    live: LiveSelector, journal: Path, go_on: str, there: Iterable[int] | None = None
) -> None:
    """Refuse records of another training, where one starts at its first step.

    A process that was killed within its first save may have left a record, but no checkpoint:
    nobody can go on from there, so the training may start again. So it may where all checkpoints
    are known to be gone: ``there`` are those in the folder.
    """
    left = len(live.steps) > 1 if there is None else not set(live.steps).isdisjoint(there)
    if live.checkpoints or left:
        raise InputError(
            f"Expected a folder without records, but {journal} has "
            f"{counted(len(live.steps), 'checkpoint')} of an earlier training: to go on from it, "
            f"{go_on}.",
            code="exists",
        )
    live.resume(0)


def _scores(live: LiveSelection) -> dict[int, float]:
    selection = live.selection
    if selection is None:
        return {}
    scores = dict(zip(selection.trajectory.steps.tolist(), selection.ranking.score, strict=True))
    return {step: float(scores[step]) for step in live.keep if step in scores}


@dataclass(frozen=True)
class Place:
    """Where a checkpoint is saved: ``path`` is the name that it gets when it is whole."""

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
        self.settle()

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
