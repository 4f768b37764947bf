"""Evaluates every checkpoint of a folder with the user's function, into a predictions folder."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypeAlias

from checkwise import __version__
from checkwise.errors import InputError
from checkwise.predict.checkpoints import find_checkpoints
from checkwise.predict.outputs import (
    FunctionName,
    discard,
    known_facts,
    missing_domains,
    outdated,
    remove_leftovers,
)
from checkwise.predict.stopping import stopped_by, terminated_like_interrupted
from checkwise.predict.workers import Failure, Pool, Task, Worker
from checkwise.store import (
    PredictionsRecord,
    RecordedCheckpoint,
    check_domains,
    checkpoint_state,
    locked,
    read_record,
    write_record,
    writing,
)
from checkwise.words import is_plain

PATIENCE_SECONDS = 10.0  # for the workers of a command that was killed to end


@dataclass(frozen=True)
class PredictResult:
    """How it ended, or by which signal. There is one output per step and domain."""

    record: PredictionsRecord
    steps: tuple[int, ...]
    domains: tuple[str, ...]
    written: int
    missing: int
    failures: tuple[Failure, ...]
    interrupted: int

    @property
    def outputs(self) -> int:
        """How many outputs were asked for."""
        return len(self.steps) * len(self.domains)


@dataclass(frozen=True)
class Evaluated:
    """What came of some tasks: outputs written, why others are missing, and the signal, or 0."""

    written: int
    failures: tuple[Failure, ...]
    interrupted: int


# Has a function evaluate tasks, elsewhere, into a predictions folder; the last argument is called
# with the number of outputs written.
Elsewhere: TypeAlias = Callable[
    [FunctionName, str, Sequence[Task], Path, Callable[[int], None]], Evaluated
]


def predict(
    folder: Path,
    function: str,
    domains: Sequence[str],
    out: Path,
    *,
    checkpoints: str | None = None,
    workers: int = 1,
    force: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
    elsewhere: Elsewhere | None = None,
) -> PredictResult:
    """Call the function once for every checkpoint and domain that has no outputs in ``out`` yet.

    Args:
        folder: where the checkpoints are.
        function: ``file.py:function`` or ``module:function``; called with path and domain.
        domains: names that are passed to the function, and name the files.
        out: the predictions folder.
        checkpoints: pattern of the checkpoints' names.
        workers: processes.
        force: discard outputs that another function, or another state of a checkpoint, gave.
        progress: called with outputs written and to write.
        elsewhere: evaluates instead of processes of this machine.

    Raises:
        InputError: the input is not valid, or would mix outputs.
        FunctionError: the function cannot be loaded.
        StoreError: the folder cannot be written.
    """
    name = FunctionName.parse(function)
    names = check_domains(domains)
    paths = find_checkpoints(folder, checkpoints)
    _check_place(folder, paths.values(), out)
    with _alone(out) as lock:
        remove_leftovers(out)
        first = Worker(name, lock=lock)
        idle = [first]

        def start() -> Worker:
            with suppress(IndexError):
                return idle.pop()
            return Worker(name, lock=lock, sha256=first.sha256)

        try:
            first.load()
            sha256 = first.sha256 or ""
            now = _record(name, sha256, folder, paths, names, out)
            _begin_or_continue(out, now, force=force)
            tasks = [
                Task(step, folder.absolute() / paths[step], now.checkpoints[step].state, missing)
                for step, missing in missing_domains(out, paths, names).items()
            ]
            total = sum(len(task.domains) for task in tasks)

            def written(done: int) -> None:
                progress(done, total)

            # A function may change the folder of its process.
            place = out.absolute()
            if elsewhere is not None and tasks:
                ended = elsewhere(name, sha256, tasks, place, written)
            else:
                pool = Pool(tasks, place, known_facts(out), start)
                ended = _evaluated(pool, min(workers, len(tasks)), written)
        finally:
            for worker in idle:
                worker.kill()
                worker.close()
            remove_leftovers(out)
    failures = sorted(ended.failures, key=lambda failure: failure.step)
    missing = total - ended.written
    return PredictResult(
        now, tuple(paths), names, ended.written, missing, tuple(failures), ended.interrupted
    )


def _evaluated(pool: Pool, workers: int, written: Callable[[int], None]) -> Evaluated:
    interrupted = 0
    try:
        with terminated_like_interrupted():
            pool.run(workers, written)
    except KeyboardInterrupt as stop:
        interrupted = stopped_by(stop)
    return Evaluated(pool.written, tuple(pool.failures), interrupted)


def _check_place(folder: Path, checkpoints: Iterable[str], out: Path) -> None:
    """Refuse to write among the checkpoints, where outputs would look like checkpoints.

    Also refuse paths that the record cannot hold.
    """
    place = out.resolve()
    for path in (folder.resolve(), place):
        if not is_plain(str(path)):
            raise InputError(
                f"Expected a path without control characters, but got {str(path)!r}: rename it."
            )
    paths = {(folder / name).resolve() for name in checkpoints}
    if place in {path.parent for path in paths} or paths & {place, *place.parents}:
        raise InputError(
            f"Expected a folder of its own for the outputs, but {out} holds the checkpoints: "
            f"choose another, such as {out / 'predictions'}.",
            code="outside",
        )


@contextmanager
def _alone(out: Path) -> Iterator[int]:
    """The predictions folder, made and locked; the descriptor that holds the lock.

    Workers hold it too, so that none of a killed command writes beside a new one.
    """
    made = not out.exists()
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    try:
        with _lock(out) as lock:
            yield lock
    finally:
        if made:
            with suppress(OSError):  # something was written
                out.rmdir()


@contextmanager
def _lock(out: Path) -> Iterator[int]:
    with ExitStack() as stack:
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                lock = stack.enter_context(locked(out))
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise InputError(
                        f"Expected to be alone, but another `checkwise predict` writes to {out}: "
                        "wait for it, or choose another folder.",
                        code="busy",
                    ) from None
                time.sleep(0.1)
        yield lock


def _record(
    name: FunctionName,
    sha256: str,
    folder: Path,
    checkpoints: Mapping[int, str],
    domains: tuple[str, ...],
    out: Path,
) -> PredictionsRecord:
    return PredictionsRecord(
        function=name.short,
        sha256=sha256,
        folder=str(folder.absolute()),
        from_here=os.path.relpath(folder.resolve(), out.resolve()),
        domains=domains,
        checkpoints={
            step: RecordedCheckpoint(path, checkpoint_state(folder / path))
            for step, path in checkpoints.items()
        },
        versions=_versions(),
    )


def _begin_or_continue(out: Path, now: PredictionsRecord, *, force: bool) -> None:
    """Write the record, once nothing is left that does not belong to it."""
    before = read_record(out)
    stale = outdated(out, before, now)
    if stale.steps and not force:
        raise InputError(
            f"Expected outputs in {out} that can be continued, but {stale.reason}: choose "
            "another folder, or discard them with --force.",
            code="exists",
        )
    with writing(out):
        discard(out, stale.steps)  # before the record, which would call them current
        write_record(out, _joined(before, now))


def _joined(before: PredictionsRecord | None, now: PredictionsRecord) -> PredictionsRecord:
    """The new record with the checkpoints and domains of the old one that it lacks."""
    if before is None or (before.function, before.sha256) != (now.function, now.sha256):
        return now
    domains = tuple(dict.fromkeys((*before.domains, *now.domains)))
    return replace(now, domains=domains, checkpoints={**before.checkpoints, **now.checkpoints})


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "checkwise": __version__}
    for package in ("numpy", "torch"):
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions
