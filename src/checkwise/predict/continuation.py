"""What a predictions folder already holds, and whether a command may add to it.

Outputs of two functions, or of two states of one checkpoint, are never mixed.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from checkwise.errors import InputError
from checkwise.predict.outputs import Facts, is_whole, saved_facts
from checkwise.readers.predictions_folder import output_files, step_folders
from checkwise.store.predictions_record import PredictionsRecord, RecordedCheckpoint

JOBS: Final = ".jobs"  # what workers elsewhere share, in a predictions folder


class Outdated(NamedTuple):
    """Steps whose outputs must not stay, and why."""

    steps: tuple[int, ...]
    reason: str


class Known(NamedTuple):
    """The facts of a domain, and the step at which they were first seen."""

    step: int
    facts: Facts


def outputs_file(out: Path, step: int, domain: str) -> Path:
    """Where the outputs of a step on a domain are."""
    return out / f"step-{step:06d}" / f"{domain}.npz"


def outdated(out: Path, before: PredictionsRecord | None, now: PredictionsRecord) -> Outdated:
    """Steps with outputs that another function gave, or another state of their checkpoint.

    Raises:
        InputError: the folder holds outputs without a record.
    """
    saved = tuple(step for step, folder in step_folders(out).items() if output_files(folder))
    if before is None:
        if saved:
            raise InputError(
                f"Expected a new folder or one that `checkwise predict` made, but {out} holds "
                "other outputs: choose another.",
                code="exists",
            )
        return Outdated((), "")
    if (before.function, before.sha256) != (now.function, now.sha256):
        other = f"{before.function} (SHA-256 {before.sha256:.12}…)"
        return Outdated(
            saved, f"its outputs are those of {other}, not {now.function} ({now.sha256:.12}…)"
        )
    changed = [step for step in saved if _differs(step, before.checkpoints, now.checkpoints)]
    if not changed:
        return Outdated((), "")
    name = before.checkpoints[changed[0]].name
    return Outdated(
        tuple(changed),
        f"{name}, evaluated as step {changed[0]}, was written again or has another step now",
    )


def discard(out: Path, steps: Iterable[int]) -> None:
    """Remove the outputs of these steps."""
    folders = step_folders(out)
    for step in steps:
        for file in output_files(folders[step]).values():
            file.unlink()
        with suppress(OSError):  # something else is in it
            folders[step].rmdir()


def remove_leftovers(out: Path) -> None:
    """Remove what a killed process was writing; only the holder of the folder's lock may.

    Workers elsewhere may outlive their command. They write below ``JOBS``; once that has another
    name they find nothing there, and cannot add to the outputs.
    """
    if (out / JOBS).is_dir():
        removed = out / f"{JOBS}.{secrets.token_hex(4)}.tmp"
        (out / JOBS).rename(removed)
        shutil.rmtree(removed, ignore_errors=True)
    for file in (*(f for f in out.glob(".*.tmp") if f.is_file()), *out.glob("step-*/.*.npz.*.tmp")):
        file.unlink(missing_ok=True)


def missing_domains(
    out: Path, steps: Iterable[int], domains: Sequence[str]
) -> dict[int, tuple[str, ...]]:
    """Step → domains that have no whole outputs yet; steps that are complete are left out."""
    missing = {
        step: tuple(name for name in domains if not is_whole(outputs_file(out, step, name)))
        for step in steps
    }
    return {step: names for step, names in missing.items() if names}


def known_facts(out: Path) -> dict[str, Known]:
    """The facts of every domain that has outputs, from its first step."""
    known: dict[str, Known] = {}
    for step, folder in step_folders(out).items():
        for domain, file in output_files(folder).items():
            if domain not in known and is_whole(file):
                known[domain] = Known(step, saved_facts(file))
    return known


def _differs(
    step: int,
    before: Mapping[int, RecordedCheckpoint],
    now: Mapping[int, RecordedCheckpoint],
) -> bool:
    """Whether a step's checkpoint was written again, or counts as another step now.

    A checkpoint that is gone does not differ: its outputs stay true.
    """
    if step not in before:
        return False
    name = _short(before[step])
    if step not in now:
        return any(_short(checkpoint) == name for checkpoint in now.values())
    return name != _short(now[step]) or before[step].state != now[step].state


def _short(checkpoint: RecordedCheckpoint) -> str:
    """The last part of the path: a run's folder and the one of its checkpoints are both fine."""
    return Path(checkpoint.name).name
