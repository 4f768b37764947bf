"""Attempts in every order of steps: one is published, and nothing that was published is lost.

The code under test is ``attempts`` of ``checkwise.study.folder``, on a simulated disk. Leases play
no part: every worker gets every run, as if all clocks and locks were wrong. A worker that dies
takes no further step, and one that is stopped takes its next step late.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from checkwise.errors import InputError
from checkwise.store import (
    DONE_FILE,
    LEASE_FILE,
    RESUME_FILE,
    SOURCE_FILE,
    attempts_folder,
    fingerprint_of,
)
from checkwise.study.folder import Saved, attempts, clear, continue_run, published
from tests.store.simulated_disk import (
    BrokenError,
    Code,
    Disk,
    Inode,
    Process,
    State,
    World,
    run_alone,
    steps,
)

RUN = Path("/runs/one")
ATTEMPTS = Path("/attempts/one")
RESCUER = 9


def line(number: int) -> bytes:
    return f"record {number}\n".encode()


def journal(records: int) -> bytes:
    return b"".join(map(line, range(records)))


def weights(number: int) -> str:
    return f"checkpoints/step-{number}"


def whole_run(records: int) -> dict[str, bytes]:
    files = {weights(number): line(number) for number in range(records)}
    return {SOURCE_FILE: journal(records), **files, DONE_FILE: b"done"}


class Toy:
    """A training of a few records: writes as the real one does, in the same order."""

    def __init__(self, disk: Disk, records: int) -> None:
        self._disk = disk
        self._records = records

    def saved(self, folder: Path) -> Saved | None:
        try:
            state = json.loads(self._disk.read_start(folder, RESUME_FILE, 1000))
        except FileNotFoundError:
            return None
        done = int(state["updates"])
        journals = {SOURCE_FILE: fingerprint_of(journal(done))}
        return Saved(done, journals, tuple(map(weights, range(done))))

    def train(self, folder: Path) -> bool:
        saved = self.saved(folder)
        done = 0 if saved is None else saved.updates
        file = self._disk.open_journal(folder, SOURCE_FILE, len(journal(done)))
        for number in range(done, self._records):
            self._disk.record(file, line(number), folder, weights(number))
            if number + 1 < self._records:
                state = json.dumps({"updates": number + 1}).encode()
                self._disk.write_file(folder, RESUME_FILE, state)
        present = self._disk.tree(folder)
        expected = whole_run(self._records)
        if any(present.get(name) != expected[name] for name in expected if name != DONE_FILE):
            raise InputError("Expected files as they were written.")
        self._disk.write_file(folder, DONE_FILE, b"done")
        return True


def tokens_of(number: int) -> SimpleNamespace:
    """Random names that are the same whenever a worker is run again."""
    tokens = iter(range(100))
    return SimpleNamespace(token_hex=lambda _: f"{number:016x}{next(tokens):016x}")


def worker(number: int, records: int) -> Code:
    """What a worker does with a run that it has taken: as ``sweep.one_run.try_run``."""

    def work(disk: Disk) -> bool:
        with replaced(disk=disk, secrets=tokens_of(number)):
            if published(RUN):
                return True
            done = continue_run(RUN, Toy(disk, records))
            if done:
                clear(RUN)
            return done

    return work


@contextmanager
def replaced(**names: Any) -> Iterator[None]:
    before = {name: getattr(attempts, name) for name in names}
    vars(attempts).update(names)
    try:
        yield
    finally:
        vars(attempts).update(before)


def folder_of(world: World) -> Inode | None:
    """The folder of the published run."""
    folder = world.find(Path(*RUN.parts[1:]))
    return folder if folder is not None and DONE_FILE in world.folders[folder] else None


class Watcher:
    """Checks every state, and that a new worker could finish the run from there."""

    def __init__(self, records: int, *, old: bool = False) -> None:
        self._expected = whole_run(records)
        self._rescuer = worker(RESCUER, records)
        self._rescued: set[Any] = set()
        self._old = old

    def check(self, before: State, after: State) -> None:
        self._check_published(before.world, after.world)
        for process in after.processes:
            if process.ending == ("returned", True) and folder_of(after.world) is None:
                self._check_put_back(after.world)
        self._check_rescue(after.world)

    def _check_published(self, before: World, after: World) -> None:
        was, folder = folder_of(before), folder_of(after)
        if was is not None and folder != was and not (self._old and self._is_moved(after)):
            raise BrokenError("what was published is gone, or was replaced")
        if folder is not None and after.tree(folder) != self._expected:
            raise BrokenError(f"a published run is not whole: {sorted(after.tree(folder))}")
        place = after.find(Path(*RUN.parts[1:]))
        if not self._old and folder is None and place is not None:
            raise BrokenError("a run is in its place without its mark")

    def _check_put_back(self, world: World) -> None:
        if not (self._old and self._is_moved(world)):
            raise BrokenError("a worker says that the run is published, but it is not")

    def _is_moved(self, world: World) -> bool:
        """Whether the run, taken for one of an older version, is whole among the attempts."""
        place = world.find(Path(*ATTEMPTS.parts[1:]))
        inner = {} if place is None else world.folders[place]
        return any(world.tree(folder) == self._expected for folder in inner.values())

    def _check_rescue(self, world: World) -> None:
        if world.key in self._rescued:
            return
        self._rescued.add(world.key)
        alone = State(world, tuple(Process() for _ in range(RESCUER + 1)))
        ended = run_alone(alone, RESCUER, self._rescuer)
        if ended.processes[RESCUER].ending != ("returned", True):
            raise BrokenError(f"a new worker cannot finish: {ended.processes[RESCUER].ending}")
        self._check_published(world, ended.world)
        if folder_of(ended.world) is None:
            raise BrokenError("the run is lost")


def explore(
    world: World,
    workers: int,
    records: int,
    *,
    switches: int = 1000,
    old: bool = False,
    delays: bool = False,
) -> int:
    """Check every state that some order of steps leads to; how many there are.

    A worker that has not ended makes way for another at most ``switches`` times.
    """
    codes = [worker(number, records) for number in range(workers)]
    watcher = Watcher(records, old=old)
    start = State(world, (Process(view=world),) * workers)
    waiting = [(start, number, switches) for number in range(workers)]
    seen = {(start.key, number, switches) for number in range(workers)}
    while waiting:
        state, number, left = waiting.pop()
        for after in steps(state, number, codes[number], delays=delays):
            watcher.check(state, after)
            for following, process in enumerate(after.processes):
                freely = following == number or after.processes[number].ending is not None
                remaining = left if freely or switches == 1000 else left - 1
                entry = (after.key, following, remaining)
                if process.ending is None and remaining >= 0 and entry not in seen:
                    seen.add(entry)
                    waiting.append((after, following, remaining))
    return len(seen)


def disk_with(files: dict[str, bytes]) -> World:
    def code(disk: Disk) -> None:
        for path, content in files.items():
            disk.make_folder(Path(path).parent)
            disk.write_file(Path(path).parent, Path(path).name, content)

    number = RESCUER - 1
    state = State(World(), (Process(),) * RESCUER)
    return run_alone(state, number, code).world if files else World()


def dead_attempt(records: int, *, at: str) -> dict[str, bytes]:
    """What a worker leaves that died after some records and the state that names them."""
    files = {
        SOURCE_FILE: journal(records) + b"torn",
        **{weights(number): line(number) for number in range(records)},
        RESUME_FILE: json.dumps({"updates": records}).encode(),
    }
    return {f"{at}/{name}": content for name, content in files.items()}


DEAD = dead_attempt(1, at=str(ATTEMPTS / ("f" * 32)))
FURTHER = {**DEAD, **dead_attempt(2, at=str(ATTEMPTS / ("e" * 32)))}
UNPUBLISHED = {f"{ATTEMPTS}/{'f' * 32}/{name}": data for name, data in whole_run(2).items()}
OLD = {**dead_attempt(1, at=str(RUN)), f"{RUN}/{LEASE_FILE}": b"theirs"}


def test_every_order_of_the_steps_of_two_workers() -> None:
    assert explore(World(), 2, 1) > 10_000


@pytest.mark.parametrize("files", [{}, DEAD, UNPUBLISHED], ids=["none", "dead", "complete"])
def test_two_workers_that_are_stopped_and_see_each_other_late(files: dict[str, bytes]) -> None:
    assert explore(disk_with(files), 2, 2, switches=1, delays=True) > 100


def test_two_workers_that_continue_the_further_of_two_attempts() -> None:
    assert explore(disk_with(FURTHER), 2, 3, switches=1) > 100


def test_a_run_that_an_older_version_left_unfinished() -> None:
    assert explore(disk_with(OLD), 2, 2, switches=2, old=True) > 100


def test_three_workers_at_one_run() -> None:
    assert explore(World(), 3, 1, switches=1) > 1_000


def test_a_saved_state_is_not_started_anew() -> None:
    """The furthest state is continued: its records are not written again."""
    written: list[bytes] = []

    class Watched(Toy):
        def train(self, folder: Path) -> bool:
            written.append(self._disk.read_start(folder, SOURCE_FILE, 1000))
            return super().train(folder)

    def code(disk: Disk) -> bool:
        with replaced(disk=disk, secrets=tokens_of(RESCUER)):
            return continue_run(RUN, Watched(disk, 3))

    state = State(disk_with(FURTHER), (Process(),) * (RESCUER + 1))
    assert run_alone(state, RESCUER, code).processes[RESCUER].ending == ("returned", True)
    assert set(written) == {journal(2)}


def its_disk() -> Disk:
    """The disk that the protocol works on."""
    disk: Disk = vars(attempts)["disk"]
    return disk


def publish_over_another(attempt: Path, run: Path) -> None:
    its_disk().remove_tree(run)
    its_disk().rename(attempt, run)


def discard_in_place(attempt: Path, run: Path) -> None:
    its_disk().remove_tree(attempt)


def begin_in_place(source: Path, attempt: Path, training: Toy) -> bool:
    its_disk().make_folder(attempt)
    attempts.bring_over(source, attempt, training)
    return True


def continue_in_place(run: Path, training: Toy) -> bool:
    """The same folder for every worker."""
    attempt = attempts_folder(run) / ("f" * 32)
    its_disk().make_folder(attempt)
    return training.train(attempt) and attempts.publish(attempt, run)


@pytest.mark.parametrize(
    ("name", "mutant", "files", "said"),
    [
        ("_put", publish_over_another, {}, "gone, or was replaced|not whole|without its mark"),
        ("discard", discard_in_place, {}, "not whole"),
        ("_begin_from", begin_in_place, {}, "cannot finish"),
        ("continue_run", continue_in_place, {}, "two workers append"),
    ],
)
def test_a_broken_protocol_is_noticed(
    name: str, mutant: Any, files: dict[str, bytes], said: str
) -> None:
    here = globals() if name in globals() else {}
    before = dict(here)
    with replaced(**{name: mutant}):
        here.update({name: mutant} if here else {})
        try:
            with pytest.raises(BrokenError, match=said):
                explore(disk_with(files), 2, 2, switches=2, delays=True)
        finally:
            here.update(before)


def test_a_disk_whose_renames_are_not_exclusive_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Disk, "REPLACES", True)
    with pytest.raises(BrokenError, match="gone, or was replaced"):
        explore(World(), 2, 1, switches=2)


def test_the_protocol_touches_files_through_the_disk_alone() -> None:
    """Otherwise the model would not see a step."""
    tree = ast.parse(Path(attempts.__file__).read_text())
    modules = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert modules == {"errno", "secrets"}
    touching = {
        *("open", "exists", "is_file", "is_dir", "iterdir", "glob", "rglob", "mkdir", "unlink"),
        *("stat", "lstat", "replace", "rmdir", "touch", "read_bytes", "read_text"),
        *("write_bytes", "write_text"),
    }
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    assert {node.attr for node in calls} & touching <= {"replace"}  # of a string
    assert sum(node.attr == "replace" for node in calls) == 1


class Workers(RuleBasedStateMachine):
    """Workers that come and go in any order, with delays, lost answers and deaths."""

    @initialize(
        records=st.integers(1, 4), files=st.sampled_from([{}, DEAD, FURTHER, UNPUBLISHED, OLD])
    )
    def begin(self, records: int, files: dict[str, bytes]) -> None:
        self.records = 2 if files is UNPUBLISHED else max(records, 2 if files else 1)
        world = disk_with(files)
        self.state = State(world, ())
        self.watcher = Watcher(self.records, old=files is OLD)

    @precondition(lambda self: len(self.state.processes) < RESCUER - 2)
    @rule()
    def start(self) -> None:
        state = self.state
        self.state = State(state.world, (*state.processes, Process(view=state.world)))

    @rule(number=st.integers(0, RESCUER), count=st.integers(1, 25), odd=st.integers(0, 24))
    def go_on(self, number: int, count: int, odd: int) -> None:
        """One worker takes some steps; one of them may be delayed, or its answer lost."""
        if number >= len(self.state.processes):
            return
        code = worker(number, self.records)
        for step in range(count):
            ways = list(steps(self.state, number, code))
            if not ways:
                return
            after = ways[-1] if step == odd else ways[0]
            self.watcher.check(self.state, after)
            self.state = after


TestWorkers = pytest.mark.filterwarnings("ignore")(Workers.TestCase)
TestWorkers.settings = settings(
    max_examples=40,
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
