"""A run's folder as checkwise writes it: only ``run.json`` and ``source.jsonl`` are opened.

Source logits are read too where a metric is asked for that needs them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from checkwise.errors import InputError
from checkwise.readers.request import LoadedRun, Request
from checkwise.records import REFINED_METRICS, with_refined
from checkwise.store import (
    COHORT_FILE,
    DONE_FILE,
    RUN_FILE,
    RUNS_FOLDER,
    SOURCE_FILE,
    read_mark,
    read_run,
    still_there,
)

_NEEDED: Final = (RUN_FILE, SOURCE_FILE)


def recognises(path: Path) -> bool:
    """Whether a folder is a run of a cohort that has begun to record, or was one until damaged."""
    return all((path / name).is_file() for name in _NEEDED) or _had_records(path)


def _had_records(path: Path) -> bool:
    """Whether a run wrote records here, whatever is left of them.

    A trainer of another kind may mark its runs with a file of the same name. So the mark alone
    counts only in the place of a cohort's run; elsewhere it has to list the run's own files.
    """
    if path.parent.name == RUNS_FOLDER and (path.parent.parent / COHORT_FILE).is_file():
        return any(os.path.lexists(path / name) for name in (DONE_FILE, SOURCE_FILE))
    if not (path / DONE_FILE).is_file():
        return False
    try:
        return RUN_FILE in read_mark(path).files
    except (InputError, OSError):
        return False


def check_own(runs: Iterable[LoadedRun], request: Request) -> None:
    """Refuse to ask other people's runs for one of two validation sets."""
    for run in runs:
        if not recognises(Path(run.where)):
            raise InputError(
                f"Expected a run of checkwise for --validation {request.validation}, but "
                f"{run.where} is none: leave it out; --source and --held-out say what is read.",
                code="unsupported",
            )


def read(path: Path, request: Request) -> list[LoadedRun]:
    """The one run of the folder; its held-out results are in other files and stay closed."""
    path = still_there(path)
    _check_there(path)
    recorded = read_run(path)
    run = recorded.trajectory(request.validation)
    unknown = sorted(set(request.held_out) - set(run.key.held_out if run.key else ()))
    if unknown:
        raise InputError(
            f"Expected --held-out to name what {path} was trained without, but got "
            f"{', '.join(unknown)}: its source domains are {', '.join(run.domains)}.",
            code="unknown",
        )
    request.expects_log(path, run.domains)
    if set(request.metrics) & set(REFINED_METRICS):
        saved = recorded.predictions(request.validation)
        run = with_refined(run, saved.logits, groups=saved.groups(int(run.steps[0])))
    absent = [name for name in request.metrics if name not in run.metrics]
    if set(absent) & set(recorded.unknown_metrics):
        raise InputError(
            f"Expected the plugin that defines {', '.join(absent)}, which {path} was trained with, "
            f"but it was not given: run the same command again and {recorded.plugin_hint}.",
            code="missing",
        )
    return [LoadedRun(run.key, run, str(path))]


def _check_there(path: Path) -> None:
    """Refuse a run that recorded something of which a part is gone, or is no file any more."""
    lost = [name for name in _NEEDED if not (path / name).is_file()]
    if lost and _had_records(path):
        what = "is not a regular file" if os.path.lexists(path / lost[0]) else "is missing"
        raise InputError(
            f"Expected the records of the run {path.name}, but {path / lost[0]} {what}: "
            "`checkwise study status --verify` says what to do.",
            code="damaged",
        )
