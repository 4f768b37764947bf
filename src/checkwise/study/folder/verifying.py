"""Check a cohort on disk: every fault says what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from checkwise.errors import InputError
from checkwise.plugins import find_plugin
from checkwise.store import (
    COHORT_FILE,
    DERIVED_FOLDER,
    DONE_FILE,
    RETRAIN,
    RUN_FILE,
    RUNS_FOLDER,
    SOURCE_FILE,
    RunRecord,
    expect,
    fingerprint,
    finished,
    has_file,
    heldout_file,
    latest_attempt,
    read_journal,
    read_mark,
    read_plan,
    read_run,
)
from checkwise.study.folder.cohort import open_cohort
from checkwise.study.folder.lease import last_failure
from checkwise.study.folder.registration import LOG, read_log
from checkwise.study.folder.run_writing import kept_files
from checkwise.study.folder.sealed import AGAIN, RECORD, checked_columns, recorded_files

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
    path = Path(path)
    if has_file(path, RUN_FILE):
        return list(_run_faults(path))
    cohort = open_cohort(path)
    faults = list(_log_faults(path))
    for done, folder in enumerate(cohort.runs.values(), start=1):
        faults += _run_faults(folder)
        if progress:
            progress(done, len(cohort.runs))
    faults += _derived_faults(path)
    planned = set(cohort.runs.values())
    for folder in sorted(p for p in (path / RUNS_FOLDER).glob("*") if p.is_dir()):
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
    for folder in sorted((cohort / DERIVED_FOLDER).glob("*/*")):
        try:
            if not has_file(folder, RECORD):
                continue
            files = recorded_files(folder)
            found = [what for what, _ in _changed(folder, files)]
            found = found if files else ["it has no checksums"]
        except (InputError, OSError) as error:
            found = [str(error).rpartition(": ")[0] or str(error)]
        name = folder.relative_to(cohort).as_posix()
        yield from (Fault(name, "damaged", what, AGAIN) for what in found)


def _run_faults(folder: Path) -> Iterator[Fault]:
    found: list[tuple[str, str]] = []
    try:
        if not finished(folder):
            yield _unfinished(folder)
            return
        mark = read_mark(folder)
        found += _changed(folder, mark.files)
        if not any(what.startswith(RUN_FILE) for what, _ in found):
            found += _unplanned(folder, read_run(folder), mark.last_step)
    except (InputError, OSError) as error:
        what, _, do = str(error).rstrip(".").rpartition(": ")
        sent_here = not what or "--verify`" in do
        found.append((what or do, RETRAIN if sent_here else do))
    yield from (Fault(folder.name, "damaged", what, do) for what, do in found)


def _unfinished(folder: Path) -> Fault:
    failure = last_failure(folder)
    if failure is not None:
        what = f"the last attempt failed: {failure.reason}"
        return Fault(folder.name, "failed", what, "put that right and run the same command again")
    attempt = latest_attempt(folder)
    if has_file(attempt, RUN_FILE):
        read_run(attempt)
    what, do = "the run has not started", "run the same `checkwise study run` again"
    if has_file(attempt, SOURCE_FILE):
        records = len(read_journal(attempt / SOURCE_FILE))
        what = f"the run is not finished ({records} records)"
        do += ": it continues where it stopped"
    return Fault(folder.name, "unfinished", what, do)


def _changed(folder: Path, files: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is not as it was recorded, and what to do about it."""
    for name, expected in files.items():
        try:
            present = fingerprint(folder, name)
        except (FileNotFoundError, NotADirectoryError):
            yield f"{name} is missing", RESTORE
        except InputError as error:
            yield f"{name} was replaced: {str(error).rstrip('.')}", RESTORE
        except OSError as error:
            yield f"{name} cannot be read ({error.strerror})", "make it readable, then verify again"
        else:
            size = f"{present['bytes']} bytes where {expected['bytes']} were written"
            if present["bytes"] == expected["bytes"]:
                size = "other content of the same size"
            if present != expected:
                yield f"{name} was changed ({size})", RESTORE
    for name in kept_files(folder):
        if name not in files:
            do = "move it out of the run's folder"
            yield f"{name} was added after the run finished", do


def _unplanned(folder: Path, run: RunRecord, last_step: int) -> Iterator[tuple[str, str]]:
    """Which journals are not what the run planned, and what to do about it."""
    try:
        expected = planned_steps(run.config, folder / RUN_FILE)
    except InputError:
        yield f"{RUN_FILE} lacks the schedule", RETRAIN
        return
    if expected[-1] != last_step:
        done = DONE_FILE
        what = f"{done} names {last_step} as the last step where {expected[-1]} was planned"
        yield what, RETRAIN
    for name in (SOURCE_FILE, *(heldout_file(d) for d in run.key.held_out)):
        try:
            lines = read_journal(folder / name)
            steps: Sequence[Any] = [line.get("step") for line in lines]
            if name != SOURCE_FILE and lines:  # the source is checked by its reader
                checked_columns(lines, folder / name)
        except FileNotFoundError:
            continue  # its missing checksum was reported
        except (InputError, OSError) as error:
            yield str(error), RESTORE
            continue
        if steps != expected:
            lacking = sorted(set(expected) - set(steps))
            missing = f" (step {lacking[0]} is missing)" if lacking else ""
            what = f"{name} has {len(steps)} records where {len(expected)} were planned{missing}"
            yield what, RESTORE


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
    if has_file(path, RUN_FILE) or read_plan(path).signed:
        return []
    return [
        f"{COHORT_FILE} has no checksum, because an earlier version of checkwise wrote it: "
        "nobody can tell whether its runs, settings or roles were changed."
    ]


def verify_plugins(path: Path, sources: Iterable[str]) -> tuple[list[Fault], list[str]]:
    """Plugins that changed, and notes about those that could not be compared."""
    alone = has_file(path, RUN_FILE)
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
