"""Why tries at a run failed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, get_type_hints

from checkwise.errors import InputError
from checkwise.store import (
    LAYOUT_SCHEMA,
    attempts_folder,
    encode_json,
    open_file,
    parse,
    read_file,
    write_text,
)
from checkwise.study.folder import disk

RETRIES: Final = 2
LONGEST_LINE: Final = 2000
SUFFIX: Final = ".failed"


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


def read_facts(folder: Path, name: str, kinds: Mapping[str, type]) -> dict[str, Any] | None:
    """The facts in a small file that anybody may have written; None where it is damaged."""
    try:
        content = parse(read_file(folder, name))
        facts = {fact: content[fact] for fact in kinds}
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return facts if all(type(facts[fact]) is kind for fact, kind in kinds.items()) else None


def write_failure(run: Path, token: str, failure: Failure) -> None:
    """Keep the reason of a failed try; ``token`` is that of its lease."""
    content = {"schema": LAYOUT_SCHEMA, **asdict(failure)}
    write_text(attempts_folder(run) / f"{token}{SUFFIX}", encode_json(content))


def read_failures(run: Path) -> list[Failure]:
    """Every failed try at a run, in order; damaged files are skipped."""
    place = attempts_folder(run)
    names = [name for name in disk.names(place) or () if name.endswith(SUFFIX)]
    found = [read_facts(place, name, get_type_hints(Failure)) for name in names]
    failures = [Failure(**facts) for facts in found if facts is not None]
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
    failures = [failure for failure in read_failures(run) if not failure.lost]
    return failures[-1] if failures else None


def last_line(run: Path, failure: Failure) -> str | None:
    """The last line that a failed try printed; None where nothing can be read of it."""
    try:
        with open_file(attempts_folder(run), failure.log) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LONGEST_LINE))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except (InputError, OSError):
        return None
    return lines[-1].strip() if lines else None
