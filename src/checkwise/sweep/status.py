"""The progress of a cohort's runs, read from its folder while workers may be training."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from checkwise.errors import InputError
from checkwise.records import RunKey
from checkwise.store import layout
from checkwise.store.attempts import latest, place_of
from checkwise.store.cohort import CohortRecord
from checkwise.store.done import finished
from checkwise.store.failures import last_failure
from checkwise.store.lease import holder
from checkwise.store.run import read_run
from checkwise.store.safe_read import has_file, read_file
from checkwise.store.verify import planned_steps

State: TypeAlias = Literal["finished", "running", "interrupted", "failed", "waiting"]


@dataclass(frozen=True)
class RunStatus:
    """One run: its state, the records it has of those planned, and why it failed."""

    key: RunKey
    state: State
    records: int
    planned: int
    reason: str | None = None


def cohort_status(cohort: CohortRecord) -> list[RunStatus]:
    """The state of every planned run."""
    return Watched(cohort).look()


class Watched:
    """A cohort that is looked at again and again.

    A run that was finished once is not read again. A run that has nothing in ``runs/`` or
    ``attempts/`` has not begun, and is not looked for; the two are listed when they have changed.
    """

    def __init__(self, cohort: CohortRecord) -> None:
        self._runs = cohort.runs
        self._places = [_Listed(cohort.path / name) for name in (layout.RUNS, layout.ATTEMPTS)]
        self._finished: dict[RunKey, RunStatus] = {}
        self._planned: int | None = None  # of an imported run, the steps that its log had
        if "imported" not in cohort.study:
            self._planned = len(planned_steps(cohort.study, cohort.path / layout.COHORT))

    def look(self) -> list[RunStatus]:
        """The state of every planned run."""
        begun = set().union(*(place.names() for place in self._places))
        return [self._state(key, run, run.name in begun) for key, run in self._runs.items()]

    def _state(self, key: RunKey, run: Path, begun: bool) -> RunStatus:
        if key in self._finished:
            return self._finished[key]
        planned = count_records(run) if self._planned is None else self._planned
        if not begun:
            return RunStatus(key, "waiting", 0, planned)
        status = _status(key, run, planned)
        if status.state == "finished":
            self._finished[key] = status
        return status


class _Listed:
    """The names in a folder, listed again only when it has changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._changed = -1
        self._names: frozenset[str] = frozenset()

    def names(self) -> frozenset[str]:
        try:
            changed = self._folder.stat().st_mtime_ns
            if changed != self._changed:
                self._names = frozenset(os.listdir(self._folder))
                self._changed = changed
        except FileNotFoundError:
            self._names = frozenset()
        return self._names


def _status(key: RunKey, run: Path, planned: int) -> RunStatus:
    """The progress of one run; a run whose files do not fit the plan has failed, with a reason."""
    try:
        done = finished(run)
        folder = run if done else latest(run)
        if has_file(folder, layout.RUN):
            read_run(folder)
        if done:
            return RunStatus(key, "finished", planned, planned)
        records = count_records(folder)
        reason = last_failure(run)
    except (InputError, OSError) as error:
        return RunStatus(key, "failed", 0, planned, str(error))
    if any(holder(place) is not None for place in (place_of(run), run)):
        return RunStatus(key, "running", records, planned)
    if reason is not None:
        return RunStatus(key, "failed", records, planned, reason)
    return RunStatus(key, "interrupted" if records else "waiting", records, planned)


def count_records(folder: Path) -> int:
    """Checkpoints that a run has recorded so far."""
    if not has_file(folder, layout.SOURCE):
        return 0
    return read_file(folder, layout.SOURCE).count(b"\n")
