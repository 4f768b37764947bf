"""The progress of a cohort's runs, read from its folder while workers may be training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from checkwise.errors import InputError
from checkwise.records import RunKey
from checkwise.store import layout
from checkwise.store.cohort import CohortRecord
from checkwise.store.done import finished
from checkwise.store.lease import holder
from checkwise.store.run import last_failure, read_run
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
    if "imported" in cohort.study:  # each run has the steps that its log had
        return [_status(key, run, count_records(run)) for key, run in cohort.runs.items()]
    planned = len(planned_steps(cohort.study, cohort.path / layout.COHORT))
    return [_status(key, folder, planned) for key, folder in cohort.runs.items()]


def _status(key: RunKey, folder: Path, planned: int) -> RunStatus:
    """The progress of one run; a run whose files do not fit the plan has failed, with a reason."""
    try:
        if has_file(folder, layout.RUN):
            read_run(folder)
        if finished(folder):
            return RunStatus(key, "finished", planned, planned)
        records = count_records(folder)
        reason = last_failure(folder)
    except (InputError, OSError) as error:
        return RunStatus(key, "failed", 0, planned, str(error))
    if holder(folder) is not None:
        return RunStatus(key, "running", records, planned)
    if reason is not None:
        return RunStatus(key, "failed", records, planned, reason)
    return RunStatus(key, "interrupted" if records else "waiting", records, planned)


def count_records(folder: Path) -> int:
    """Checkpoints that a run has recorded so far."""
    if not has_file(folder, layout.SOURCE):
        return 0
    return read_file(folder, layout.SOURCE).count(b"\n")
