"""The cohort that a log or table was imported into, beside it: what it says about the files."""

from __future__ import annotations

import errno
from pathlib import Path

from checkwise.errors import InputError
from checkwise.readers import Request
from checkwise.study.folder import OPENED, Origin, is_cohort, open_cohort, origin_of, read_lines

SUFFIX = ".cohort"
SORTING = ("role", "held_out", "domain")  # columns that say which rows are the target's


def default_place(path: Path) -> Path:
    """``runs`` → ``runs.cohort``, beside it; beside what it leads to, if it is a link."""
    whole = path.resolve() if path.is_symlink() or path.name in ("", "..") else path
    return whole.parent / f"{whole.name}{SUFFIX}"


def cohort_beside(path: Path) -> Path | None:
    """The cohort in the default place; None where there is none, or can be none."""
    try:
        if not path.exists():
            return None
        place = default_place(path)
        return place if is_cohort(place) else None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return None
        raise


def check_sealed(path: Path, request: Request) -> None:
    """Refuse to read as sources what the import of a log or table holds out.

    Raises:
        InputError: the cohort beside ``path`` was told of a target, and the request is not.
    """
    place = cohort_beside(path)
    if place is None:
        return
    record = open_cohort(place)
    origin = origin_of(record)
    if origin is None:
        return
    missing = [f"--held-out {name}" for name in origin.held_out if name not in request.held_out]
    missing += [
        f"--column {name}={column}"
        for name, column in origin.columns.items()
        if name in SORTING and request.columns.get(name) != column
    ]
    if missing:
        held_out = ", ".join(origin.held_out) or "its targets"
        raise InputError(
            f"Expected to read source domains only, but {path} was imported with {held_out} held "
            f"out: add {' '.join(missing)}, or give {place}.",
            code="held-out",
        )
    shared = set.intersection(*(set(key.held_out) for key in record.runs))
    for name in sorted(shared & set(request.sources)):
        raise InputError(
            f"Expected to read source domains only, but {path} was imported with {name} held out: "
            f"leave out --source {name}, or give {place}.",
            code="held-out",
        )


def opened_beside(path: Path, cohort: Path) -> str | None:
    """A warning where another import of the same files, in the default place, was opened."""
    place = cohort_beside(path)
    if place is None or cohort.samefile(place):
        return None
    one, other = (origin_of(open_cohort(folder)) for folder in (place, cohort))
    if one is None or other is None or _contents(one) != _contents(other):
        return None
    for line in read_lines(place):
        if line.content["kind"] == OPENED:
            return (
                f"{place}, made of the same files, was opened on {line.content['at'][:10]}: what "
                f"is registered in {cohort} after that is late."
            )
    return None


def _contents(origin: Origin) -> set[str]:
    return {fingerprint["sha256"] for fingerprint in origin.files.values()}
