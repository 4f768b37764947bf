"""How far the runs of a cohort are, read from its folder without disturbing anybody."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from checkwise.records import RunKey
from checkwise.store import layout
from checkwise.store.cohort import CohortRecord
from checkwise.store.lease import holder
from checkwise.store.run import finished
from checkwise.store.verify import record_steps

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
    planned = len(record_steps(int(cohort.study["steps"]), int(cohort.study["record_every"])))
    return [_status(key, folder, planned) for key, folder in cohort.runs.items()]


def _status(key: RunKey, folder: Path, planned: int) -> RunStatus:
    if finished(folder):
        return RunStatus(key, "finished", planned, planned)
    records = count_records(folder)
    if holder(folder) is not None:
        return RunStatus(key, "running", records, planned)
    reason = failure(folder)
    if reason is not None:
        return RunStatus(key, "failed", records, planned, reason)
    return RunStatus(key, "interrupted" if records else "waiting", records, planned)


def failure(folder: Path) -> str | None:
    """Why the last attempt at a run failed, in one line."""
    try:
        lines = (folder / layout.ERROR).read_text(errors="replace").strip().splitlines()
    except OSError:
        return None
    return lines[-1] if lines else "no reason was recorded"


def count_records(folder: Path) -> int:
    """Checkpoints that a run has recorded so far."""
    try:
        return (folder / layout.SOURCE).read_bytes().count(b"\n")
    except OSError:
        return 0
