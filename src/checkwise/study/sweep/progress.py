"""The progress of a cohort's runs, read from its folder while workers may be training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal, TypeAlias

from checkwise.errors import InputError
from checkwise.records import RunKey
from checkwise.store import (
    ATTEMPTS_FOLDER,
    COHORT_FILE,
    DONE_FILE,
    RUN_FILE,
    RUNS_FOLDER,
    SOURCE_FILE,
    attempts_folder,
    finished,
    has_file,
    latest_attempt,
    read_file,
    read_run,
)
from checkwise.study.folder import (
    SILENT_SECONDS,
    CohortRecord,
    clock_of,
    last_failure,
    last_holder,
    last_line,
    names,
    planned_steps,
)

State: TypeAlias = Literal["finished", "running", "interrupted", "failed", "waiting"]
Clock: TypeAlias = Callable[[], float]

# Of the time between two looks, this many times as long as a look takes is left to others.
PATIENCE: Final = 19


@dataclass(frozen=True)
class RunStatus:
    """One run.

    ``records`` of ``planned`` checkpoints are there. ``reason`` is why its last try failed, on
    ``host``; ``log`` is what that printed, relative to the cohort, with its ``last_line``. Of a
    run that is held, ``host`` and ``process`` say by whom, and ``silent`` the seconds without a
    sign of life, if there should have been one. ``seconds`` are those of the last attempt so far,
    and ``ended`` is when it was finished, by the clock of the disk.
    """

    key: RunKey
    state: State
    records: int
    planned: int
    reason: str | None = None
    host: str | None = None
    process: int | None = None
    silent: float | None = None
    log: str | None = None
    last_line: str | None = None
    seconds: float | None = None
    ended: float | None = None


def cohort_status(cohort: CohortRecord) -> list[RunStatus]:
    return Watched(cohort).look()


class Watched:
    """A cohort that is looked at again and again; a run that was finished once is not read again.

    A run that has nothing in ``runs/`` or ``attempts/`` has not begun, and is not looked for.
    """

    def __init__(self, cohort: CohortRecord) -> None:
        self._cohort = cohort
        self._planned = 0  # of an imported run, the steps that its log had
        if "steps" in cohort.study:
            self._planned = len(planned_steps(cohort.study, cohort.path / COHORT_FILE))
        self._finished: dict[RunKey, RunStatus] = {}

    def look(self) -> list[RunStatus]:
        path = self._cohort.path
        begun = {
            name for folder in (RUNS_FOLDER, ATTEMPTS_FOLDER) for name in names(path / folder) or ()
        }
        clock = cache(lambda: clock_of(path))  # of the disk, read once a look
        found = []
        for key, run in self._cohort.runs.items():
            status = self._finished.get(key, RunStatus(key, "waiting", 0, self._planned))
            if status.state != "finished" and run.name in begun:
                status = _status(key, run, self._planned or count_records(run), clock)
            if status.state == "finished":
                self._finished[key] = status
            found.append(status)
        return found


def pause_after(look_seconds: float, least: float) -> float:
    """How long to wait until the next look, so that looking takes a twentieth of the time."""
    return max(least, PATIENCE * look_seconds)


def _status(key: RunKey, run: Path, planned: int, clock: Clock) -> RunStatus:
    """The progress of one run; a run whose files do not fit the plan has failed, with a reason."""
    try:
        done = finished(run)
        folder = run if done else latest_attempt(run)
        began = 0.0
        if has_file(folder, RUN_FILE):
            read_run(folder)
            began = (folder / RUN_FILE).stat().st_mtime
        if done:
            ended = (run / DONE_FILE).stat().st_mtime
            seconds = max(0.0, ended - began) if began else None
            return RunStatus(key, "finished", planned, planned, seconds=seconds, ended=ended)
        records = count_records(folder)
        failure = last_failure(run)
    except (InputError, OSError) as error:
        return RunStatus(key, "failed", 0, planned, str(error))
    holder, silence = last_holder(attempts_folder(run)), 0.0
    held: dict[str, Any] = {}
    alive = False
    if holder is not None:
        alive = holder.seems_alive(clock())
        silence = max(0.0, clock() - holder.beaten)
        if alive or (silence >= SILENT_SECONDS and not holder.is_here):
            held = {"host": holder.host, "process": holder.pid}
            held["silent"] = silence if silence >= SILENT_SECONDS else None
    if alive:
        seconds = max(0.0, clock() - began) if began else None
        return RunStatus(key, "running", records, planned, seconds=seconds, **held)
    if failure is not None:
        log = f"{ATTEMPTS_FOLDER}/{run.name}/{failure.log}" if failure.log else None
        last = last_line(run, failure)
        told: dict[str, Any] = {"host": failure.host or None, "log": log, "last_line": last}
        return RunStatus(key, "failed", records, planned, failure.reason, **told)
    return RunStatus(key, "interrupted" if records else "waiting", records, planned, **held)


def count_records(folder: Path) -> int:
    if not has_file(folder, SOURCE_FILE):
        return 0
    return read_file(folder, SOURCE_FILE).count(b"\n")


RECENT: Final = 100  # finished runs that the rate is taken from


@dataclass(frozen=True)
class Overview:
    """What ``checkwise study status`` says of all runs together."""

    counts: Mapping[str, int]
    hosts: Mapping[str, int]
    runs_per_hour: float | None
    remaining_seconds: float | None


def overview(runs: Sequence[RunStatus]) -> Overview:
    """The facts about all runs.

    The rate is that of the runs finished last, times the number of workers now: a pause of all
    workers does not count.
    """
    running = [run for run in runs if run.state == "running"]
    alive = [run for run in running if run.silent is None]
    each = _seconds_per_record(runs, alive)
    rate = remaining = None
    if each and alive:
        left = sum(run.planned - run.records for run in runs if run.state != "failed")
        rate = 3600 * len(alive) / (each * median(run.planned for run in alive))
        remaining = left * each / len(alive)
    return Overview(
        counts=dict(sorted(Counter(run.state for run in runs).items())),
        hosts=dict(sorted(Counter(run.host or "" for run in running).items())),
        runs_per_hour=rate,
        remaining_seconds=remaining,
    )


def _seconds_per_record(runs: Sequence[RunStatus], alive: Sequence[RunStatus]) -> float | None:
    """Of the runs that were finished last; before any is, of those that are being trained."""
    done = [run for run in runs if run.state == "finished" and run.ended is not None]
    recent = sorted(done, key=lambda run: run.ended or 0.0)[-RECENT:]
    return _median(recent) or _median(run for run in alive if run.records > 1)


def _median(runs: Iterable[RunStatus]) -> float | None:
    each = [run.seconds / run.records for run in runs if run.seconds and run.records]
    return median(each) if each else None
