"""Check a cohort on disk; every fault comes with what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from checkwise.errors import InputError
from checkwise.store import layout
from checkwise.store.cohort import open_cohort
from checkwise.store.journal import read_journal
from checkwise.store.registration import LOG, read_log
from checkwise.store.run import RunRecord, fingerprint, finished, kept_files, read_run

RETRAIN = "remove the run's folder and give the same `checkwise sweep` again to train it anew"
RESTORE = f"restore the file from a copy, or {RETRAIN}"


@dataclass(frozen=True)
class Fault:
    """Something that is not as it has to be: where, what, and what to do.

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
    if (path / layout.RUN).is_file():
        return list(_run_faults(path))
    cohort = open_cohort(path)
    faults = list(_log_faults(path))
    for done, folder in enumerate(cohort.runs.values(), start=1):
        faults += _run_faults(folder)
        if progress:
            progress(done, len(cohort.runs))
    planned = set(cohort.runs.values())
    for folder in sorted(p for p in (path / layout.RUNS).glob("*") if p.is_dir()):
        if folder not in planned:
            what = "the folder is not in the plan"
            faults.append(Fault(folder.name, "damaged", what, "move it out of the cohort"))
    return faults


def _log_faults(cohort: Path) -> Iterator[Fault]:
    try:
        read_log(cohort)
    except InputError as error:
        do = "until then nobody can tell what was registered in time"
        yield Fault(LOG, "damaged", str(error).rstrip("."), do)


def _run_faults(folder: Path) -> Iterator[Fault]:
    name = folder.name
    if (folder / layout.ERROR).is_file() and not finished(folder):
        reason = (folder / layout.ERROR).read_text(errors="replace").strip().splitlines()
        what = f"the last attempt failed: {reason[-1] if reason else 'no reason was recorded'}"
        yield Fault(name, "failed", what, "put that right and give the same command again")
        return
    if not finished(folder):
        yield from _unfinished_faults(folder)
        return
    try:
        mark = layout.read_json(folder / layout.DONE)
        files: dict[str, Any] = dict(mark["files"])
        run = read_run(folder)
    except (InputError, KeyError, TypeError, ValueError) as error:
        yield Fault(name, "damaged", str(error), RETRAIN)
        return
    yield from _file_faults(folder, files)
    yield from _record_faults(folder, run, int(mark.get("last_step", -1)))


def _unfinished_faults(folder: Path) -> Iterator[Fault]:
    what, do = "the run has not started", "give the same `checkwise sweep` again"
    if (folder / layout.SOURCE).is_file():
        try:
            records = len(read_journal(folder / layout.SOURCE))
        except (InputError, OSError) as error:
            yield Fault(folder.name, "damaged", str(error), RETRAIN)
            return
        what = f"the run is not finished ({records} records)"
        do += ": it continues where it stopped"
    yield Fault(folder.name, "unfinished", what, do)


def _file_faults(folder: Path, files: dict[str, Any]) -> Iterator[Fault]:
    for name, expected in files.items():
        path = folder / name
        try:
            found = fingerprint(path)
        except FileNotFoundError:
            yield Fault(folder.name, "damaged", f"{name} is missing", RESTORE)
            continue
        except OSError as error:
            what = f"{name} cannot be read ({error.strerror})"
            yield Fault(folder.name, "damaged", what, "make it readable, then verify again")
            continue
        if found != expected:
            size = f"{found['bytes']} bytes where {expected['bytes']} were written"
            same_size = found["bytes"] == expected["bytes"]
            what = f"{name} was changed ({'other content of the same size' if same_size else size})"
            yield Fault(folder.name, "damaged", what, RESTORE)
    for name in kept_files(folder):
        if name not in files:
            what = f"{name} was added after the run finished"
            yield Fault(folder.name, "damaged", what, "move it out of the run's folder")


def _record_faults(folder: Path, run: RunRecord, last_step: int) -> Iterator[Fault]:
    try:
        steps, every = int(run.config["steps"]), int(run.config["record_every"])
    except (KeyError, TypeError, ValueError):
        yield Fault(folder.name, "damaged", f"{layout.RUN} lacks the schedule", RETRAIN)
        return
    expected = record_steps(steps, every)
    if expected[-1] != last_step:
        what = f"{layout.DONE} names {last_step} as the last step where {expected[-1]} was planned"
        yield Fault(folder.name, "damaged", what, RETRAIN)
    for name in (layout.SOURCE, *(layout.heldout_file(d) for d in run.key.held_out)):
        try:
            found: Sequence[Any] = [line.get("step") for line in read_journal(folder / name)]
        except FileNotFoundError:
            continue  # told by its checksum
        except (InputError, OSError) as error:
            yield Fault(folder.name, "damaged", str(error), RESTORE)
            continue
        if found != expected:
            lacking = sorted(set(expected) - set(found))
            what = f"{name} has {len(found)} records where {len(expected)} were planned" + (
                f" (step {lacking[0]} is missing)" if lacking else ""
            )
            yield Fault(folder.name, "damaged", what, RESTORE)


def record_steps(steps: int, record_every: int) -> list[int]:
    """Steps at which a run of ``steps`` updates writes a record: every n-th, and the last.

    >>> record_steps(5, 2), record_steps(6, 2)
    ([0, 2, 4], [0, 2, 4, 5])
    """
    return sorted({*range(0, steps, record_every), steps - 1})
