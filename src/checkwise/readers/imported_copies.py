"""Runs of an imported cohort whose logs lie beside it: read both, and every run counts twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from checkwise.errors import InputError
from checkwise.store.done import fingerprint
from checkwise.store.layout import ORIGIN
from checkwise.store.run import read_run


def copies(runs: Iterable[Path], logs: Sequence[Path]) -> list[Path]:
    """The run folders that were imported from one of the logs, which must not have changed."""
    if not logs:
        return []
    origins = {run: sha256 for run in runs if (sha256 := _origin(run)) is not None}
    if not origins:
        return []
    files = [log.resolve() for log in logs]
    present = {fingerprint(file.parent, file.name)["sha256"] for file in files}
    return [run for run, sha256 in origins.items() if sha256 in present]


def _origin(run: Path) -> str | None:
    """The SHA-256 of the log that a run was imported from."""
    try:
        origin = read_run(run).config.get(ORIGIN)
    except InputError:  # whoever reads the run says what is wrong with it
        return None
    return origin.get("sha256") if isinstance(origin, dict) else None
