"""Where results may be written: never over what was read, nor over anybody's records."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from checkwise.errors import InputError
from checkwise.store import COHORT_FILE, check_writable, has_file, is_own_folder, is_own_record
from checkwise.words import listed

if TYPE_CHECKING:
    from checkwise.readers import Request

# Columns that say which rows of a table are a target's.
_SORTING: Final = ("role", "held_out", "domain")
STANDARD_STREAMS: Final = ("-", "/dev/stdin", "/dev/stdout", "/dev/stderr")
# How files begin that `select` writes: a choice, a table of checkpoints, a page.
ANSWERS: Final = (
    b'{\n  "schema": 2,\n  "runs": [',
    b"rank,step,",
    b'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
    b'content="width=device-width, initial-scale=1"><meta http-equiv="Content-Security-Policy"',
)


def check_file(
    out: Path | None,
    *read: Path,
    kinds: tuple[str, ...] = (),
    replace: bool = True,
    makes_folder: bool = False,
) -> None:
    """Refuse an output file that would replace what was read or records, or cannot be written.

    ``kinds`` are the endings that it may have; it may be there already with ``replace`` alone.
    """
    if out is None:
        return
    if str(out) in STANDARD_STREAMS:
        raise InputError(f"Expected a file to write, but got {str(out)!r}: name a file.")
    if any(out.exists() and place.exists() and out.samefile(place) for place in read):
        raise InputError(
            f"Expected another file to write than {out}, which is the input.", code="outside"
        )
    _refuse_record(out)
    if kinds and not out.name.endswith(kinds):
        raise InputError(f"Expected -o to end in {listed(kinds, 'or')}, but got {str(out)!r}.")
    if not replace:
        refuse_what_is_there(out)
    if not makes_folder and not out.absolute().parent.is_dir():
        raise InputError(f"Expected the folder of {out} to exist: make it first.", code="missing")
    check_writable(out)


def _refuse_record(out: Path) -> None:
    if is_own_record(out):
        what = "is a link to a run's records" if out.is_symlink() else "records a run"
        raise InputError(
            f"Expected another file to write than {out}, which {what}.", code="outside"
        )


def refuse_what_is_there(out: Path) -> None:
    """Refuse to replace anything."""
    if out.exists():
        raise InputError(
            f"{out} exists already: choose another name or add --force.", code="exists"
        )


def check_answer(out: Path, read: Iterable[Path], *, force: bool) -> None:
    """Refuse to replace a file that `select` did not write, unless forced, or one that was read."""
    if not out.is_file():
        return
    with out.open("rb") as opened:
        if opened.read(200).startswith(ANSWERS):
            return
    place = out.resolve()
    for source in map(Path.resolve, read):
        if place == source or place.is_relative_to(source) or source.is_relative_to(place):
            raise InputError(
                f"Expected a new file to write, but {out} is part of what was read: choose "
                "another name.",
                code="outside",
            )
    if not force:
        refuse_what_is_there(out)


def check_folder(out: Path, files: Iterable[str] = ()) -> None:
    """Refuse a folder for these files that is none, or lies among the records of a study."""
    existing = next((place for place in (out, *out.parents) if place.exists()), out)
    if existing.exists() and not existing.is_dir():
        raise InputError(
            f"Expected a folder to write to, but {existing} is a file: choose another.",
            code="exists",
        )
    if is_own_folder(out):
        raise InputError(
            f"Expected a folder of its own to write to, but {out} is a study's or a run's: "
            "choose another, such as STUDY/results.",
            code="outside",
        )
    for name in files:
        if (out / name).is_symlink():
            _refuse_record(out / name)
        check_writable(out / name)


def default_place(path: Path) -> Path:
    """``runs`` → ``runs.cohort``, beside it; beside what it leads to, if it is a link."""
    whole = path.resolve() if path.is_symlink() or path.name in ("", "..") else path
    return whole.parent / f"{whole.name}.cohort"


def cohort_beside(path: Path) -> Path | None:
    """The cohort in the default place; None where there is none, or can be none."""
    try:
        found = path.exists() and has_file(default_place(path), COHORT_FILE)
        return default_place(path) if found else None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return None
        raise


def check_sealed(path: Path, request: Request) -> None:
    """Refuse to read as sources what an import of the log or table, beside it, holds out."""
    place = cohort_beside(path)
    if place is None:
        return
    from checkwise.study.folder import open_cohort, origin_of

    record = open_cohort(place)
    origin = origin_of(record)
    if origin is None:
        return
    missing = [f"--held-out {name}" for name in origin.held_out if name not in request.held_out]
    missing += [
        f"--column {name}={column}"
        for name, column in origin.columns.items()
        if name in _SORTING and request.columns.get(name) != column
    ]
    shared = set.intersection(*(set(key.held_out) for key in record.runs))
    opened = sorted(shared & set(request.sources))
    if missing or opened:
        remedy = f"add {' '.join(missing)}" if missing else f"leave out --source {opened[0]}"
        held_out = (", ".join(origin.held_out) or "its targets") if missing else opened[0]
        raise InputError(
            f"Expected to read source domains only, but {path} was imported with {held_out} held "
            f"out: {remedy}, or give {place}.",
            code="held-out",
        )
