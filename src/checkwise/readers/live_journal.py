"""The journal of a ``LiveSelector``: the records that were added while a run trained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from checkwise.errors import InputError
from checkwise.readers.checkpoint_files import Checkpoints, steps_to_choose_from
from checkwise.readers.request import LoadedRun, NoRecordsError, Request, build, names_in
from checkwise.records import CheckpointRecord, Trajectory, check_held_out, examples_of, facts_of
from checkwise.store import (
    LiveHistory,
    Predictions,
    live_journals,
    read_live_journal,
)


def recognises(path: Path) -> bool:
    """Whether a file is a journal, or a folder holds one."""
    return bool(live_journals(path))


def own_folders(path: Path) -> set[str]:
    """All folders in one with journals: whatever they hold belongs to the same runs."""
    return set(names_in(path))


def journal_at(path: Path) -> Path | None:
    """The journal that a path is, or the one in a folder; None where there is none, or several."""
    found = live_journals(path)
    return found[0] if len(found) == 1 else None


def read(path: Path, request: Request) -> list[LoadedRun]:
    """The run of a journal, or those of the journals in a folder.

    Whatever else is in such a folder belongs to the same runs: logs, and checkpoints.
    """
    if not path.is_dir():
        return [_read(path, request)]
    runs = []
    for file in live_journals(path):
        try:
            runs.append(replace(_read(file, request), where=str(path)))
        except NoRecordsError as error:
            request.left_out.append(error)
    return runs


def _read(path: Path, request: Request) -> LoadedRun:
    """The run of a journal; only steps whose weights are there, where any are."""
    header, lines = read_live_journal(path)
    history = LiveHistory.replay(lines, path, held_out=header["held_out"])
    saved = {step: str(place) for step, place in history.checkpoints.items() if place.exists()}
    if not history.records:
        raise NoRecordsError(
            f"Expected at least one record, but got none in {path}: wait for the first checkpoint.",
            code="empty",
        )
    steps, notes = steps_to_choose_from(
        sorted(history.records),
        Checkpoints(saved),
        include_unsaved=request.include_unsaved,
    )
    records = _read_sets(history.records, header["held_out"], request, path)
    facts = facts_of(records[step] for step in steps)
    every = [records[step] for step in sorted(records)]
    examples = examples_of(every, labels={}, groups=history.groups)
    request.expects_log(path, facts["domains"])
    run = build(
        Trajectory,
        str(path),
        **{**facts, "notes": (*facts["notes"], *notes)},
        bins=header["bins"],
        bandwidth=header["bandwidth"],
        logged=sorted(history.records),
        chosen_by=header["choice"],
        paths=[saved.get(step) for step in steps] if saved else None,
        examples=examples and examples.subset(steps),
    )
    if history.predictions is not None:
        run = Predictions(history.predictions).added_to(run, records)
    return LoadedRun(None, run, str(path), path)


def _read_sets(
    records: Mapping[int, CheckpointRecord], aside: Iterable[str], request: Request, path: Path
) -> Mapping[int, CheckpointRecord]:
    """The records on the sets that may be read; ``aside`` are those that were never recorded."""
    names = next(iter(records.values())).domains
    check_held_out(request.held_out, sorted({*names, *aside}), str(path))
    left = [name for name in names if name not in request.held_out]
    if not left:
        raise InputError(
            f"No validation set of {path} is left after --held-out: hold out fewer.", code="empty"
        )
    return {
        step: replace(record, domains={name: record.domains[name] for name in left})
        for step, record in records.items()
    }
