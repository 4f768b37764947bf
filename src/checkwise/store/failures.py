"""Why tries at a run failed: one file for each, written by whoever noticed it."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from checkwise.errors import InputError
from checkwise.store import disk, layout, strict_json
from checkwise.store.atomic_write import write_text
from checkwise.store.attempts import place_of
from checkwise.store.safe_read import has_file, open_file, read_file

RETRIES: Final = 2
LONGEST_LINE: Final = 2000
SUFFIX: Final = ".failed"
_KINDS: Final = {
    "round": str,
    "number": int,
    "host": str,
    "reason": str,
    "log": str,
    "updates": int,
    "lost": bool,
}


@dataclass(frozen=True)
class Failure:
    """One failed try.

    Args:
        round: the sweep that it belongs to; tries are counted within it.
        number: which try it was, from 1.
        host: where it ran.
        reason: why it failed, in one line.
        log: the file beside this one with the details; "" without one.
        updates: updates that the furthest saved state of the run had afterwards.
        lost: whether its worker ended or fell silent without a word, and the run is tried again.
    """

    round: str
    number: int
    host: str
    reason: str
    log: str = ""
    updates: int = 0
    lost: bool = False


def write_failure(run: Path, token: str, failure: Failure) -> None:
    """Keep the reason of a failed try; ``token`` is that of its lease."""
    content = {"schema": layout.SCHEMA, **asdict(failure)}
    write_text(place_of(run) / f"{token}{SUFFIX}", layout.encode_json(content))


def read_failures(run: Path) -> list[Failure]:
    """Every failed try at a run, in order; damaged files are skipped."""
    place = place_of(run)
    names = [name for name in disk.names(place) or () if name.endswith(SUFFIX)]
    failures = [failure for name in names if (failure := _read(place, name)) is not None]
    return sorted(failures, key=lambda failure: failure.number)


def tries(failures: list[Failure], round_: str, updates: int) -> int:
    """How many tries of a round have failed.

    Workers that were lost count only if the run got no further since: a machine that is taken away
    now and then is no fault of the run.
    """
    return sum(
        failure.round == round_ and (not failure.lost or failure.updates == updates)
        for failure in failures
    )


def last_failure(run: Path) -> Failure | None:
    """The last failed try at a run; None where none failed, or a worker was lost."""
    if has_file(run, layout.ERROR):  # of an older version of checkwise
        lines = read_file(run, layout.ERROR).decode(errors="replace").strip().splitlines()
        return Failure("", 1, "", lines[-1] if lines else "no reason was recorded")
    failures = [failure for failure in read_failures(run) if not failure.lost]
    return failures[-1] if failures else None


def last_line(run: Path, failure: Failure) -> str | None:
    """The last line that a failed try printed; None where nothing can be read of it."""
    place = place_of(run)
    try:
        with open_file(place, failure.log) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LONGEST_LINE))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except (InputError, OSError):
        return None
    return lines[-1].strip() if lines else None


def _read(place: Path, name: str) -> Failure | None:
    try:
        content = strict_json.parse(read_file(place, name))
    except (OSError, ValueError):
        return None
    if not isinstance(content, dict):
        return None
    facts = {entry: content.get(entry) for entry in _KINDS}
    if any(type(facts[entry]) is not kind for entry, kind in _KINDS.items()):
        return None
    return Failure(**facts)  # type: ignore[arg-type]
