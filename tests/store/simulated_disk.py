"""A disk in memory, workers that run real code on it one step at a time, and every order of steps.

A worker is a plain function. To take one step, it is run again from its start: the steps that it
has taken give the results that they gave, the next one happens, and the one after it ends the call.
So a state is a value, and states that are reached in several ways are looked at once.

A worker sees what others did with a delay: a look may show the disk as it was at the worker's last
own change or fresh look. A rename may happen and yet be reported as failed, as by a file server
whose answer was lost.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

Inode = tuple[int, int]  # the worker that made it, and the number of its step
ROOT: Inode = (-1, 0)
RUNS = Path("/runs")


class StepTaken(BaseException):
    """Ends a call of a worker that has taken its step."""


class BrokenError(AssertionError):
    """The rules of the disk or of the protocol are broken."""


@dataclass(frozen=True)
class World:
    """What is on the disk; every change makes a new one."""

    folders: dict[Inode, dict[str, Inode]] = field(
        default_factory=lambda: {ROOT: {RUNS.name: (-1, 1)}, (-1, 1): {}}
    )
    files: dict[Inode, bytes] = field(default_factory=dict)
    writers: dict[Inode, int] = field(default_factory=dict)  # who appends to a file

    def find(self, path: PurePath) -> Inode | None:
        place: Inode | None = ROOT
        for name in path.parts:
            place = self.folders.get(place, {}).get(name) if place is not None else None
        return place

    def parent(self, path: PurePath) -> Inode:
        place = self.find(path.parent)
        if place is None or place not in self.folders:
            raise FileNotFoundError(errno.ENOENT, "no such folder", str(path.parent))
        return place

    def entered(self, folder: Inode, name: str, inode: Inode | None) -> World:
        """With a name in a folder, or without it."""
        names = {other: held for other, held in self.folders[folder].items() if other != name}
        if inode is not None:
            names[name] = inode
        return replace(self, folders={**self.folders, folder: names})

    def tree(self, inode: Inode) -> dict[str, bytes]:
        """Every file below a folder."""
        content: dict[str, bytes] = {}
        for name, inner in self.folders.get(inode, {}).items():
            if inner in self.files:
                content[name] = self.files[inner]
            for below, data in self.tree(inner).items():
                content[f"{name}/{below}"] = data
        return content

    @cached_property
    def key(self) -> int:
        """The same for worlds that are alike; what cannot be reached any more does not count."""
        return hash((self._walk(ROOT), tuple(sorted(self.writers.items()))))

    def _walk(self, inode: Inode) -> Any:
        if inode in self.files:
            return inode, self.files[inode]
        return inode, tuple((n, self._walk(i)) for n, i in sorted(self.folders[inode].items()))


@dataclass(frozen=True)
class Process:
    """One worker: the results of its steps, what it has seen of the disk, and how it ended."""

    results: tuple[Any, ...] = ()
    view: World = field(default_factory=World)
    ending: Any = None

    @cached_property
    def key(self) -> int:
        return hash((repr(self.results), self.view.key, repr(self.ending)))


Code = Callable[["Disk"], Any]


@dataclass(frozen=True)
class State:
    """The disk and every worker."""

    world: World
    processes: tuple[Process, ...]

    @cached_property
    def key(self) -> int:
        return hash((self.world.key, *(process.key for process in self.processes)))


def steps(state: State, number: int, code: Code, *, delays: bool = True) -> Iterator[State]:
    """Every state that one step of one worker can lead to."""
    process = state.processes[number]
    choice = 0
    while process.ending is None:
        disk = Disk(state.world, process, number, choice, delays=delays)
        ending = None
        try:
            ending = ("returned", code(disk))
        except StepTaken:
            pass
        except (OSError, ValueError) as error:
            ending = ("raised", type(error).__name__)
        if disk.broken:
            raise BrokenError(disk.broken)
        if disk.choices <= choice:  # nothing more can come of this step
            return
        view = disk.view if delays and ending is None else process.view
        results = (*process.results, *disk.taken)
        after = Process(results, view, ending)
        others = state.processes
        yield State(disk.world, (*others[:number], after, *others[number + 1 :]))
        choice += 1
        if choice >= disk.choices:
            return


def run_alone(state: State, number: int, code: Code) -> State:
    """Let one worker take all its steps, without delays."""
    while state.processes[number].ending is None:
        state = next(iter(steps(state, number, code, delays=False)))
    return state


class Disk:
    """The operations of ``checkwise.study.folder.disk`` as one worker sees them."""

    def __init__(
        self, world: World, process: Process, number: int, choice: int, *, delays: bool
    ) -> None:
        self.world = world
        self.view = process.view
        self.taken: list[Any] = []
        self.choices = 1
        self.broken = ""
        self._past = list(process.results)
        self._position = 0
        self._number = number
        self._choice = choice
        self._delays = delays

    # What the protocol calls.

    def has_file(self, folder: Path, name: str) -> bool:
        return bool(self._look(lambda world: world.find(_of(folder / name)) in world.files))

    def names(self, folder: Path) -> list[str] | None:
        def names(world: World) -> list[str] | None:
            place = world.find(_of(folder))
            return None if place is None else sorted(world.folders[place])

        result: list[str] | None = self._look(names)
        return result

    def size(self, folder: Path, name: str) -> int:
        def size(world: World) -> int:
            return len(world.files.get(world.find(_of(folder / name)) or ROOT, b""))

        return int(self._look(size))

    def read_start(self, folder: Path, name: str, length: int) -> bytes:
        def read(world: World) -> bytes:
            inode = world.find(_of(folder / name))
            if inode is None:
                raise FileNotFoundError(errno.ENOENT, "no such file", str(folder / name))
            return world.files[inode][:length]

        content: bytes = self._look(read)
        return content

    def tree(self, folder: Path) -> dict[str, bytes]:
        """Every file below a folder, in one look."""

        def read(world: World) -> dict[str, bytes]:
            inode = world.find(_of(folder))
            return {} if inode is None else world.tree(inode)

        content: dict[str, bytes] = self._look(read)
        return content

    def write_file(self, folder: Path, name: str, content: bytes) -> None:
        self._change(lambda world: self._written(world, folder, name, content))

    def make_folder(self, path: Path) -> None:
        if path == RUNS:  # is there from the start
            return
        self._change(lambda world: self._made(world, path))

    def link(self, source: Path, folder: Path, name: str) -> None:
        def link(world: World) -> World:
            inode = world.find(_of(source / name))
            if inode is None:
                raise FileNotFoundError(errno.ENOENT, "no such file", str(source / name))
            return self._entered(world, folder, name, inode)

        self._change(link)

    def rename(self, old: Path, new: Path) -> None:
        def rename(world: World) -> World:
            inode = world.find(_of(old))
            if inode is None:
                raise FileNotFoundError(errno.ENOENT, "no such folder", str(old))
            there = world.find(_of(new))
            if there is not None and world.folders[there] and not self.REPLACES:
                raise OSError(errno.ENOTEMPTY, "not empty", str(new))
            world = world.entered(world.parent(_of(new)), new.name, inode)
            return world.entered(world.parent(_of(old)), old.name, None)

        self._change(rename, answer_may_be_lost=True)

    REPLACES = False  # a rename that is not exclusive, to show that the tests notice

    def remove_tree(self, path: Path) -> None:
        """Open a folder, remove one file in it, remove the rest, wherever the folder is by then."""
        inode: Inode | None = self._look(lambda world: world.find(_of(path)), delayed=False)
        if inode is not None:
            self._change(lambda world: self._emptied(world, inode, most=1))
            self._change(lambda world: self._emptied(world, inode))
            self.remove_folder(path)

    def remove_file(self, path: Path) -> None:
        def remove(world: World) -> World:
            if world.find(_of(path)) is None:
                return world
            return world.entered(world.parent(_of(path)), path.name, None)

        self._change(remove)

    def remove_folder(self, path: Path) -> None:
        def remove(world: World) -> World:
            inode = world.find(_of(path))
            if inode is None or world.folders[inode]:
                return world
            return world.entered(world.parent(_of(path)), path.name, None)

        self._change(remove)

    def sync_folder(self, folder: Path) -> None:
        pass

    # What a training does with its journal: it holds the file open.

    def open_journal(self, folder: Path, name: str, length: int) -> Inode:
        """Open a file, made if there is none, and cut it to a length; the file itself."""
        path = folder / name

        def opened(world: World) -> World:
            inode = world.find(_of(path))
            if inode is None:
                return self._written(world, folder, name, b"")
            return replace(world, files={**world.files, inode: world.files[inode][:length]})

        inode: Inode = self._change(opened, result=lambda world: world.find(_of(path)))
        return inode

    def record(self, journal: Inode, line: bytes, folder: Path, weights: str) -> None:
        """Write the weights of a record, and append its line."""

        def recorded(world: World) -> World:
            if world.writers.get(journal, self._number) != self._number:
                self.broken = "two workers append to one file"
            world = self._written(world, folder, weights, line)
            files = {**world.files, journal: world.files[journal] + line}
            return replace(world, files=files, writers={**world.writers, journal: self._number})

        self._change(recorded)

    # One step.

    def _look(self, look: Callable[[World], Any], *, delayed: bool = True) -> Any:
        if self._position < len(self._past):
            return self._again()
        self._begin()
        fresh, stale = _tried(look, self.world), _tried(look, self.view)
        if delayed and self._delays and repr(fresh) != repr(stale):
            self.choices = 2
        if self._choice == 1:
            return self._end(stale)
        self.view = self.world
        return self._end(fresh)

    def _change(
        self,
        change: Callable[[World], World],
        *,
        result: Callable[[World], Any] = lambda world: None,
        answer_may_be_lost: bool = False,
    ) -> Any:
        if self._position < len(self._past):
            return self._again()
        self._begin()
        try:
            self.world = change(self.world)
        except OSError as error:
            self.view = self.world
            return self._end(error)
        self.view = self.world
        if answer_may_be_lost and self._delays:
            self.choices = 2
        if self._choice == 1:
            return self._end(FileNotFoundError(errno.ENOENT, "lost answer", ""))
        return self._end(result(self.world))

    def _again(self) -> Any:
        value = self._past[self._position]
        self._position += 1
        if isinstance(value, OSError):
            raise type(value)(*value.args)
        return value

    def _begin(self) -> None:
        if self.taken:
            raise StepTaken

    def _end(self, value: Any) -> Any:
        self.taken.append(value)
        self._past.append(value)
        return self._again()

    def _new(self) -> Inode:
        return self._number, len(self._past)

    def _made(self, world: World, path: Path) -> World:
        for depth, folder in enumerate([*reversed(path.parents), path]):
            if _of(folder).parts and world.find(_of(folder)) is None:
                inode = (self._number, 1000 * (len(self._past) + 1) + depth)
                world = replace(world, folders={**world.folders, inode: {}})
                world = world.entered(world.parent(_of(folder)), folder.name, inode)
        return world

    def _written(self, world: World, folder: Path, name: str, content: bytes) -> World:
        world = replace(world, files={**world.files, self._new(): content})
        return self._entered(world, folder, name, self._new())

    def _entered(self, world: World, folder: Path, name: str, inode: Inode) -> World:
        """With a file in a folder that must be there; the folders between are made."""
        world.parent(_of(folder / "any"))
        path = folder / name
        world = self._made(world, path.parent)
        return world.entered(world.parent(_of(path)), path.name, inode)

    def _emptied(self, world: World, inode: Inode, most: int = 1000) -> World:
        for name, inner in sorted(world.folders[inode].items()):
            if world.folders.get(inner):
                world = self._emptied(world, inner, most)
                if most == 1:
                    return world
            world = world.entered(inode, name, None)
            if most == 1:
                return world
        return world


@cache
def _of(path: Path) -> PurePosixPath:
    return PurePosixPath(*path.parts[1:])


def _tried(look: Callable[[World], Any], world: World) -> Any:
    try:
        return look(world)
    except OSError as error:
        return error
