"""Evaluates every checkpoint of a folder with the user's function, into a predictions folder."""

from __future__ import annotations

import os
import platform
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, TypeAlias

from checkwise import __version__
from checkwise.errors import InputError
from checkwise.predict.checkpoints import find_checkpoints
from checkwise.predict.function import FunctionName
from checkwise.predict.outputs import known_facts
from checkwise.predict.pool import Failure, Pool, Task, Worker
from checkwise.predict.stopping import stopped_by, terminated_like_interrupted
from checkwise.store import (
    FileState,
    Predictions,
    PredictionsRecord,
    RecordedCheckpoint,
    check_domains,
    is_whole,
    locked,
    writing,
)
from checkwise.words import is_plain

PATIENCE_SECONDS = 10.0  # for the workers of a command that was killed to end
JOBS: Final = ".jobs"  # what workers elsewhere share, in a predictions folder


@dataclass(frozen=True)
class Evaluated:
    """What came of some tasks: outputs written, why others are missing, and the signal, or 0."""

    written: int
    failures: tuple[Failure, ...]
    interrupted: int


@dataclass(frozen=True)
class PredictResult(Evaluated):
    """The same of a whole command. There is one output per step and domain."""

    record: PredictionsRecord
    steps: tuple[int, ...]
    domains: tuple[str, ...]
    missing: int

    @property
    def outputs(self) -> int:
        """How many outputs were asked for."""
        return len(self.steps) * len(self.domains)


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
    """
    name = FunctionName.parse(function)
    names = check_domains(domains)
    paths = find_checkpoints(folder, checkpoints)
    _check_place(folder, paths.values(), out)
    with _alone(out) as lock:
        remove_leftovers(out)
        first = Worker(name, lock=lock)  # which the pool goes on with
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
            place = Predictions(out).place
            tasks = [
                Task(step, folder.absolute() / path, now.checkpoints[step].state, absent)
                for step, path in paths.items()
                if (absent := tuple(name for name in names if not is_whole(place(step, name))))
            ]
            total = sum(len(task.domains) for task in tasks)

            def written(done: int) -> None:
                progress(done, total)

            into = out.absolute()  # a function may change the folder of its process
            if elsewhere is not None and tasks:
                ended = elsewhere(name, sha256, tasks, into, written)
            else:
                pool, interrupted = Pool(tasks, into, known_facts(out), start), 0
                try:
                    with terminated_like_interrupted():
                        pool.run(min(workers, len(tasks)), written)
                except KeyboardInterrupt as stop:
                    interrupted = stopped_by(stop)
                ended = Evaluated(pool.written, tuple(pool.failures), interrupted)
        finally:
            for worker in idle:
                worker.kill()
                worker.close()
            remove_leftovers(out)
    return PredictResult(
        ended.written,
        tuple(sorted(ended.failures, key=lambda failure: failure.step)),
        ended.interrupted,
        record=now,
        steps=tuple(paths),
        domains=names,
        missing=total - ended.written,
    )


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
    end = time.monotonic() + PATIENCE_SECONDS
    with ExitStack() as stack:
        if made:
            stack.callback(_remove_empty, out)
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


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _record(
    name: FunctionName,
    sha256: str,
    folder: Path,
    checkpoints: Mapping[int, str],
    domains: tuple[str, ...],
    out: Path,
) -> PredictionsRecord:
    versions = {"python": platform.python_version(), "checkwise": __version__}
    for package in ("numpy", "torch"):
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return PredictionsRecord(
        function=name.short,
        sha256=sha256,
        folder=str(folder.absolute()),
        from_here=os.path.relpath(folder.resolve(), out.resolve()),
        domains=domains,
        checkpoints={
            step: RecordedCheckpoint(path, FileState.of(folder / path))
            for step, path in checkpoints.items()
        },
        versions=versions,
    )


def _begin_or_continue(out: Path, now: PredictionsRecord, *, force: bool) -> None:
    """Write the record, once nothing is left of another function, or another checkpoint."""
    before = PredictionsRecord.read(out)
    saved = Predictions(out)
    outdated = [step for step, files in saved.files.items() if files]
    reason = ""
    if before is None:
        if outdated:
            raise InputError(
                "Expected a new folder or one that `checkwise predict` made, but "
                f"{out} holds other outputs: choose another.",
                code="exists",
            )
    elif (before.function, before.sha256) != (now.function, now.sha256):
        reason = (
            f"its outputs are those of {before.function} (SHA-256 {before.sha256:.12}…), not "
            f"{now.function} ({now.sha256:.12}…)"
        )
    else:
        then, current = before.checkpoints, now.checkpoints
        outdated = [step for step in outdated if _differs(step, then, current)]
        for step in outdated[:1]:
            reason = (
                f"{then[step].name}, evaluated as step {step}, was written again or has another "
                "step now"
            )
        domains = tuple(dict.fromkeys((*before.domains, *now.domains)))
        now = replace(now, domains=domains, checkpoints={**then, **current})
    if outdated and not force:
        raise InputError(
            f"Expected outputs in {out} that can be continued, but {reason}: choose another "
            "folder, or discard them with --force.",
            code="exists",
        )
    with writing(out):
        for step in outdated:  # before the record, which would call them current
            for file in saved.files[step].values():
                file.unlink()
            _remove_empty(saved.folders[step])
        now.write(out)


def _differs(
    step: int,
    before: Mapping[int, RecordedCheckpoint],
    now: Mapping[int, RecordedCheckpoint],
) -> bool:
    """Whether a step's checkpoint was written again, or counts as another step now.

    A checkpoint that is gone does not differ: its outputs stay true. Of its path the last part
    counts: a run's folder and the one of its checkpoints are both fine.
    """
    if step not in before:
        return False
    name = Path(before[step].name).name
    if step not in now:
        return any(Path(checkpoint.name).name == name for checkpoint in now.values())
    return name != Path(now[step].name).name or before[step].state != now[step].state


def remove_leftovers(out: Path) -> None:
    """Remove what a killed process was writing; only the holder of the folder's lock may.

    Workers elsewhere may outlive their command. They write below ``JOBS``; once that has another
    name they find nothing there, and cannot add to the outputs.
    """
    if (out / JOBS).is_dir():
        removed = out / f"{JOBS}.{secrets.token_hex(4)}.tmp"
        (out / JOBS).rename(removed)
        shutil.rmtree(removed, ignore_errors=True)
    for file in (*(f for f in out.glob(".*.tmp") if f.is_file()), *out.glob("step-*/.*.npz.*.tmp")):
        file.unlink(missing_ok=True)
