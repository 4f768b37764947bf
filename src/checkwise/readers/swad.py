"""SWAD's logs: several runs one after another in a file, with a validation loss.

``tr_outloss`` is the mean over source domains of the validation NLL, so rules on NLL work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.readers import domainbed
from checkwise.readers.json_lines import JsonLines, Line, number, whole
from checkwise.readers.request import LoadedRun, Request
from checkwise.records import RunKey, Trajectory

SUFFIX = "_out"
LOSS = "tr_outloss"


def is_swad_log(line: Line) -> bool:
    """Whether a log's first record is one of SWAD's."""
    return LOSS in line.fields or bool(domainbed.domains_with([line], SUFFIX))


def read(log: JsonLines, path: Path, request: Request) -> list[LoadedRun]:
    """The runs of one log, each with its own held-out domains."""
    lines = list(log)
    loaded = []
    for key, records in swad_lines(lines, path, request).items():
        # Only the last line of the file can be cut off, so only its run gets the note.
        notes = log.notes if records[-1] is lines[-1] else ()
        trajectory = _trajectory(key, records, notes, path, request)
        loaded.append(LoadedRun(key, trajectory, f"{path} line {records[0].number}", path))
    return loaded


def swad_lines(lines: Sequence[Line], path: Path, request: Request) -> dict[RunKey, list[Line]]:
    """The records of every run of a log."""
    runs: dict[RunKey, list[Line]] = {}
    known = domainbed.logged(lines)
    started, before = 0, -1
    for line in lines:
        step = whole(line, "step", path)
        started += step <= before
        before = step
        args = domainbed.arguments(line, path)
        test_envs = domainbed.indices(args.get("real_test_envs"))
        if test_envs is None:
            planned = _planned(args.get("test_envs"), started, line, path)
            test_envs = domainbed.indices(planned)
        targets = domainbed.targets_of(test_envs, request, line, path, known)
        # SWAD draws no hyperparameters; its `seed` is what tells two such runs apart.
        key = domainbed.run_key(args, targets, seed="seed", path=path)
        runs.setdefault(key, []).append(line)
    return runs


def _planned(test_envs: Any, started: int, line: Line, path: Path) -> Any:
    """The entry of ``test_envs`` that the number of restarts points to, where it has several."""
    if not isinstance(test_envs, list) or not any(isinstance(entry, list) for entry in test_envs):
        return test_envs
    if started >= len(test_envs):
        raise InputError(
            f"Expected {len(test_envs)} runs as in args.test_envs, but the steps of {path} start "
            f"again in line {line.number}: remove the lines of the attempt that does not count.",
            code="ambiguous",
        )
    return test_envs[started]


def _trajectory(
    key: RunKey, lines: Sequence[Line], notes: Iterable[str], path: Path, request: Request
) -> Trajectory:
    lines, repeats = domainbed.latest(lines, path)
    targets = {int(name.removeprefix("env")) for name in key.held_out}
    accuracy = domainbed.accuracies(lines, SUFFIX, targets, path)
    names = {index: f"env{index}" for index in accuracy}
    kept = domainbed.sources_left(request, names, targets, (), path)
    remarks = [*notes, *repeats]
    pooled = {}
    if len(kept) < len(names):
        remarks.append(f"{LOSS} is a mean that includes the domains left out and is not read")
    elif all(line.fields.get(LOSS) is not None for line in lines):
        pooled["nll"] = [number(line, LOSS, path) for line in lines]
    else:
        remarks.append(f"{LOSS} is missing in some records and is not read")
    return domainbed.assemble(
        lines,
        {"accuracy": {i: column for i, column in accuracy.items() if i in kept}},
        path,
        domains=list(kept.values()),
        pooled=pooled,
        key=key,
        notes=remarks,
    )
