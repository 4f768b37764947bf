"""Check a cohort on disk: every fault says what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from checkwise.errors import InputError
from checkwise.plugins import find_plugin
from checkwise.store import (
    RETRAIN,
    RunRecord,
    expect,
    fingerprint,
    finished,
    has_file,
    layout,
    read_journal,
    read_mark,
    read_plan,
    read_run,
)
from checkwise.study.folder.cohort import open_cohort
from checkwise.study.folder.heldout import AGAIN, RECORD, checked_columns, recorded_files
from checkwise.study.folder.lease import last_failure
from checkwise.study.folder.registration import LOG, read_log
from checkwise.study.folder.run_writing import kept_files

MOST_RECORDS = 10**7
IMPORT = "import its log again into a new folder"
RESTORE = f"restore the file from a copy, or {RETRAIN}"


@dataclass(frozen=True)
class Fault:
    """Something wrong: where, what, and what to do.

    ``run`` is the run's folder, or the file where the cohort's own log is at fault.
    ``kind`` is "damaged" (results cannot be trusted), "unfinished" (training goes on) or "failed".
    """

    run: str
    kind: Literal["damaged", "unfinished", "failed"]
    what: str
    do: str


def verify(path: Path, *, progress: Callable[[int, int], None] | None = None) -> list[Fault]:
    """Every fault of a cohort's folder, or of a single run's."""
    path = Path(path)
    if has_file(path, layout.RUN_FILE):
        return list(_run_faults(path))
    cohort = open_cohort(path)
    faults = list(_log_faults(path))
    for done, folder in enumerate(cohort.runs.values(), start=1):
        faults += _run_faults(folder)
        if progress:
            progress(done, len(cohort.runs))
    faults += _derived_faults(path)
    planned = set(cohort.runs.values())
    for folder in sorted(p for p in (path / layout.RUNS_FOLDER).glob("*") if p.is_dir()):
        if folder not in planned:
            what = "the folder is not in the plan"
            faults.append(Fault(folder.name, "damaged", what, "move it out of the study"))
    if "imported" in cohort.study:
        return [replace(fault, do=fault.do.replace(RETRAIN, IMPORT)) for fault in faults]
    return faults


def _log_faults(cohort: Path) -> Iterator[Fault]:
    try:
        read_log(cohort)
    except InputError as error:
        do = "until then nobody can tell what was registered in time"
        yield Fault(LOG, "damaged", str(error).rstrip("."), do)


def _derived_faults(cohort: Path) -> Iterator[Fault]:
    """Results of methods beside the runs; one without a record is not whole, and counts as none."""
    for folder in sorted((cohort / layout.DERIVED_FOLDER).glob("*/*")):
        name = folder.relative_to(cohort).as_posix()
        try:
            if not has_file(folder, RECORD):
                continue
            files = recorded_files(folder)
            found = [replace(fault, run=name, do=AGAIN) for fault in _file_faults(folder, files)]
            yield from found if files else [Fault(name, "damaged", "it has no checksums", AGAIN)]
        except (InputError, OSError) as error:
            yield Fault(name, "damaged", str(error).rpartition(": ")[0] or str(error), AGAIN)


def _run_faults(folder: Path) -> Iterator[Fault]:
    try:
        yield from _finished_faults(folder) if finished(folder) else _unfinished_faults(folder)
    except (InputError, OSError) as error:
        what, _, do = str(error).rstrip(".").rpartition(": ")
        sent_here = not what or "--verify`" in do
        yield Fault(folder.name, "damaged", what or do, RETRAIN if sent_here else do)


def _finished_faults(folder: Path) -> Iterator[Fault]:
    mark = read_mark(folder)
    faults = list(_file_faults(folder, mark.files))
    yield from faults
    if not any(fault.what.startswith(layout.RUN_FILE) for fault in faults):
        yield from _record_faults(folder, read_run(folder), mark.last_step)


def _unfinished_faults(folder: Path) -> Iterator[Fault]:
    failure = last_failure(folder)
    if failure is not None:
        what = f"the last attempt failed: {failure.reason}"
        yield Fault(folder.name, "failed", what, "put that right and run the same command again")
        return
    attempt = layout.latest(folder)
    if has_file(attempt, layout.RUN_FILE):
        read_run(attempt)
    what, do = "the run has not started", "run the same `checkwise study run` again"
    if has_file(attempt, layout.SOURCE_FILE):
        records = len(read_journal(attempt / layout.SOURCE_FILE))
        what = f"the run is not finished ({records} records)"
        do += ": it continues where it stopped"
    yield Fault(folder.name, "unfinished", what, do)


def _file_faults(folder: Path, files: Mapping[str, Any]) -> Iterator[Fault]:
    for name, expected in files.items():
        try:
            present = fingerprint(folder, name)
        except (FileNotFoundError, NotADirectoryError):
            yield Fault(folder.name, "damaged", f"{name} is missing", RESTORE)
            continue
        except InputError as error:
            what = f"{name} was replaced: {str(error).rstrip('.')}"
            yield Fault(folder.name, "damaged", what, RESTORE)
            continue
        except OSError as error:
            what = f"{name} cannot be read ({error.strerror})"
            yield Fault(folder.name, "damaged", what, "make it readable, then verify again")
            continue
        if present != expected:
            size = f"{present['bytes']} bytes where {expected['bytes']} were written"
            same_size = present["bytes"] == expected["bytes"]
            what = f"{name} was changed ({'other content of the same size' if same_size else size})"
            yield Fault(folder.name, "damaged", what, RESTORE)
    for name in kept_files(folder):
        if name not in files:
            what = f"{name} was added after the run finished"
            yield Fault(folder.name, "damaged", what, "move it out of the run's folder")


def _record_faults(folder: Path, run: RunRecord, last_step: int) -> Iterator[Fault]:
    try:
        expected = planned_steps(run.config, folder / layout.RUN_FILE)
    except InputError:
        yield Fault(folder.name, "damaged", f"{layout.RUN_FILE} lacks the schedule", RETRAIN)
        return
    if expected[-1] != last_step:
        done = layout.DONE_FILE
        what = f"{done} names {last_step} as the last step where {expected[-1]} was planned"
        yield Fault(folder.name, "damaged", what, RETRAIN)
    for name in (layout.SOURCE_FILE, *(layout.heldout_file(d) for d in run.key.held_out)):
        try:
            lines = read_journal(folder / name)
            steps: Sequence[Any] = [line.get("step") for line in lines]
            if lines and name != layout.SOURCE_FILE:  # whose reader checks its values
                checked_columns(lines, folder / name)
        except FileNotFoundError:
            continue  # its missing checksum was reported
        except (InputError, OSError) as error:
            yield Fault(folder.name, "damaged", str(error), RESTORE)
            continue
        if steps != expected:
            lacking = sorted(set(expected) - set(steps))
            what = f"{name} has {len(steps)} records where {len(expected)} were planned" + (
                f" (step {lacking[0]} is missing)" if lacking else ""
            )
            yield Fault(folder.name, "damaged", what, RESTORE)


def planned_steps(facts: Mapping[str, Any], path: Path) -> list[int]:
    """The steps of the records that a study or a run plans; ``path`` is the file of its facts."""
    logged = facts.get("record_steps")  # of an imported run, which may have no regular schedule
    if isinstance(logged, list) and logged and all(type(step) is int for step in logged):
        return logged
    steps, every = (expect(facts, name, int, path) for name in ("steps", "record_every"))
    if not (steps > 0 and every > 0 and steps // every < MOST_RECORDS):
        raise InputError(
            f"Expected a schedule, but got {steps} updates with a record every {every} in {path}: "
            "restore the file from a copy.",
            code="damaged",
        )
    return record_steps(steps, every)


def record_steps(steps: int, record_every: int) -> list[int]:
    """Steps at which a run of ``steps`` updates writes a record: every n-th, and the last.

    Example:
        >>> record_steps(5, 2), record_steps(6, 2)
        ([0, 2, 4], [0, 2, 4, 5])
    """
    return sorted({*range(0, steps, record_every), steps - 1})


def unsigned(path: Path) -> list[str]:
    """A note on a plan that nothing can be compared with."""
    if has_file(path, layout.RUN_FILE) or read_plan(path).signed:
        return []
    return [
        f"{layout.COHORT_FILE} has no checksum, because an earlier version of checkwise wrote it: "
        "nobody can tell whether its runs, settings or roles were changed."
    ]


def verify_plugins(path: Path, sources: Iterable[str]) -> tuple[list[Fault], list[str]]:
    """Plugins that changed, and notes about those that could not be compared."""
    alone = has_file(path, layout.RUN_FILE)
    facts = read_run(path).config if alone else open_cohort(path).study
    recorded = facts.get("plugins")
    recorded = recorded if isinstance(recorded, Mapping) else {}
    present = {plugin.name: plugin.sha256 for plugin in map(find_plugin, sources)}
    faults, notes = [], []
    for name, sha256 in recorded.items():
        if name not in present:
            notes.append(
                f"Trained with the plugin {name} (SHA-256 {sha256:.12}…), which was not compared: "
                f"add --plugin {name}."
            )
        elif present[name] != sha256:
            what = f"the plugin changed (was {sha256:.12}…, is {present[name]:.12}…)"
            faults.append(Fault(name, "damaged", what, "restore it"))
    notes += [f"No run was trained with the plugin {n}." for n in present if n not in recorded]
    return faults, notes
