"""``checkwise study import``, and the cohort that other commands make of a log or a table."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from checkwise.cli import printing
from checkwise.cli.command import PATH, argument, command, option
from checkwise.cli.imported_beside import default_place, opened_beside
from checkwise.cli.input_options import columns_of
from checkwise.cli.options import READ, column_option, out_option, source_option
from checkwise.cli.progress import counting
from checkwise.errors import CheckwiseWarning, InputError
from checkwise.readers import Request
from checkwise.study.folder import is_cohort
from checkwise.words import counted

if TYPE_CHECKING:
    from checkwise.study import ForeignRun

import_to_option = option(
    "--import-to",
    type=PATH,
    metavar="DIR",
    help="Where a log or table is imported to, and kept. [default: PATH.cohort]",
)


@command(
    "import",
    examples=[
        "checkwise study import domainbed-runs -o out/imported",
        "checkwise study import results.csv --held-out sketch",
    ],
)
@argument("path")
@option(
    "--held-out",
    multiple=True,
    metavar="NAME",
    under=READ,
    help="A set of the table that is a target: its rows are sealed; repeatable.",
)
@source_option
@column_option
@option("--role", default="evaluation", help="development or evaluation. [default: evaluation]")
@option("--name", help="The name of the study. [default: that of PATH]")
@out_option.but(metavar="DIR", help="The study to make. [default: PATH.cohort]")
def import_command(
    path: Path,
    held_out: tuple[str, ...],
    source: tuple[str, ...],
    column: tuple[str, ...],
    role: str,
    name: str | None,
    out: Path | None,
) -> None:
    """Make a study of PATH: DomainBed logs, SWAD logs, or a table with rows of the target.

    Source validation and held-out results go to different files. Nothing held out is shown.
    """
    from checkwise.study import import_cohort

    place = default_place(path) if out is None else out
    request = Request.of(held_out, (), sources=source, columns=columns_of(column))
    with counting("importing runs") as progress:
        runs = import_cohort(path, place, request, role=role, name=name, progress=progress)
    screen = printing.console()
    screen.print(f"{counted(len(runs), 'run')} imported into {place}.")
    for line in _notes(runs):
        screen.print(line)
    _warn_if_opened(path, place)
    screen.print(
        f"Held-out results are sealed there. `checkwise study register {place}` registers a rule "
        f"before `checkwise study compare {place}` opens them."
    )


def cohort_at(path: Path, import_to: Path | None) -> Path:
    """The cohort at a path; a log or table is imported first, unless it already was.

    The imported cohort stays, so that registrations and the mark of an opening stay with it.

    Raises:
        InputError: the files changed since they were imported.
    """
    from checkwise.study import check_unchanged, import_cohort, importable

    if not importable(path):
        return path
    place = default_place(path) if import_to is None else import_to
    screen = printing.console(stderr=True)
    if is_cohort(place):
        check_unchanged(place, path, Request())
        screen.print(f"{path} was imported before: {place} is read.")
    else:
        with counting("importing runs") as progress:
            runs = import_cohort(path, place, Request(), progress=progress)
        screen.print(f"{path} is imported into {place} ({counted(len(runs), 'run')}).")
    _warn_if_opened(path, place)
    return place


def cohorts_at(paths: Sequence[Path], import_to: Path | None) -> list[Path]:
    """The cohorts at several paths; two paths may not share one cohort folder."""
    if import_to is not None and len(paths) > 1:
        raise InputError(
            f"Expected one STUDY with --import-to, but got {len(paths)}: run `checkwise study "
            "import` for each, and give what it made."
        )
    return [cohort_at(path, import_to) for path in paths]


def _warn_if_opened(path: Path, cohort: Path) -> None:
    warning = opened_beside(path, cohort)
    if warning is not None:
        warnings.warn(warning, CheckwiseWarning, stacklevel=3)


def _notes(runs: Sequence[ForeignRun]) -> list[str]:
    notes = Counter(note for run in runs for note in run.trajectory.notes)
    lines = [f"note ({times} of {len(runs)} runs): {note}" for note, times in notes.items()]
    gaps = [run for run in runs if run.gaps]
    if gaps:
        lines.append(
            f"note ({len(gaps)} of {len(runs)} runs): some checkpoints have no held-out accuracy; "
            "comparisons leave out the runs in which a rule chooses one of those"
        )
    return lines
