"""``checkwise study import``, ``pack``, ``unpack``, and the study that a log or a table becomes."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from checkwise.cli import printing
from checkwise.cli.command import argument, command, option
from checkwise.cli.options import (
    READ,
    column_option,
    columns_of,
    force_option,
    out_option,
    source_option,
)
from checkwise.cli.places import check_file, cohort_beside, default_place
from checkwise.cli.progress import counting
from checkwise.errors import CheckwiseWarning
from checkwise.readers import Request
from checkwise.words import counted

if TYPE_CHECKING:
    from checkwise.study import ForeignRun
    from checkwise.study.folder import Origin


@command(
    "import",
    examples=[
        "checkwise study import domainbed-runs -o out/imported",
        "checkwise study import results.csv --held-out sketch",
    ],
)
@argument("path")
@option(
    "--held-out NAME…",
    "A set of the table that is a target: its rows are sealed; repeatable.",
    under=READ,
)
@source_option
@column_option
@option("--role TEXT", "development or evaluation. [default: evaluation]", default="evaluation")
@out_option.but(metavar="DIR", help="The study to make. [default: PATH.cohort]")
def import_command(
    path: Path,
    held_out: tuple[str, ...],
    source: tuple[str, ...],
    column: tuple[str, ...],
    role: str,
    out: Path | None,
) -> None:
    """Make a study of PATH: DomainBed logs, SWAD logs, or a table with rows of the target.

    Source validation and held-out results go to different files. Nothing held out is shown.
    """
    place = default_place(path) if out is None else out
    request = Request.of(held_out, (), sources=source, columns=columns_of(column))
    runs = _imported(path, place, request, role)
    notes = Counter(note for run in runs for note in run.trajectory.notes)
    if gaps := sum(bool(run.gaps) for run in runs):
        notes[
            "some checkpoints have no held-out accuracy; comparisons leave out the runs in which "
            "a rule chooses one of those"
        ] = gaps
    _warn_if_opened(path, place)
    printing.say(
        f"{counted(len(runs), 'run')} imported into {place}.",
        *(f"note ({times} of {len(runs)} runs): {note}" for note, times in notes.items()),
        f"Held-out results are sealed there. `checkwise study register {place}` registers a rule "
        f"before `checkwise study compare {place}` opens them.",
    )


def _imported(
    path: Path, place: Path, request: Request, role: str = "evaluation"
) -> Sequence[ForeignRun]:
    from checkwise.study import import_cohort

    with counting("importing runs") as progress:
        return import_cohort(path, place, request, role=role, progress=progress)


def cohort_at(path: Path) -> Path:
    """The cohort at a path; a log or table is imported first, unless it already was.

    The imported cohort stays, so that registrations and the mark of an opening stay with it.
    """
    from checkwise.study import check_unchanged, importable
    from checkwise.study.folder import is_cohort

    if not importable(path):
        return path
    place = default_place(path)
    if is_cohort(place):
        check_unchanged(place, path, Request())
        printing.say(f"{path} was imported before: {place} is read.", stderr=True)
    else:
        runs = _imported(path, place, Request())
        said = f"{path} is imported into {place} ({counted(len(runs), 'run')})."
        printing.say(said, stderr=True)
    return place


def _warn_if_opened(path: Path, cohort: Path) -> None:
    """Warn where another import of the same files, in the default place, was opened."""
    from checkwise.study.folder import OPENED, open_cohort, origin_of, read_lines

    place = cohort_beside(path)
    if place is None or cohort.samefile(place):
        return
    one, other = (origin_of(open_cohort(folder)) for folder in (place, cohort))
    if one is None or other is None or _contents(one) != _contents(other):
        return
    opened = [line.content for line in read_lines(place) if line.content["kind"] == OPENED]
    if opened:
        warnings.warn(
            f"{place}, made of the same files, was opened on {opened[0]['at'][:10]}: what is "
            f"registered in {cohort} after that is late.",
            CheckwiseWarning,
            stacklevel=3,
        )


def _contents(origin: Origin) -> set[str]:
    return {fingerprint["sha256"] for fingerprint in origin.files.values()}


@command("pack")
@argument("cohort", metavar="STUDY")
@out_option.but(required=True, help="The file to write, .tar.xz.")
@force_option
def pack_command(cohort: Path, out: Path, force: bool) -> None:
    """Put the journals of STUDY into one file, without weights and predictions."""
    from checkwise.study.folder import SUFFIX as PACKED
    from checkwise.study.folder import pack

    check_file(out, cohort, kinds=(PACKED,), replace=force)
    runs = pack(cohort, out)
    size = out.stat().st_size / 1e6
    printing.say(f"{runs} runs packed into {out} ({size:.2f} MB).")


@command("unpack")
@argument("file")
@out_option.but(required=True, help="The folder to make.")
def unpack_command(file: Path, out: Path) -> None:
    """Make a folder of FILE, a packed study: select, compare and report work on it."""
    from checkwise.study.folder import unpack

    unpack(file, out)
    printing.say(f"Unpacked into {out}.")
