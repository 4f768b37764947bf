"""``checkwise figures``: every figure of one or several cohorts as PDF and PNG."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from checkwise.cli import printing
from checkwise.cli.compare import Role, names
from checkwise.cli.importing import ImportTo, cohorts_at
from checkwise.cli.tables import Cohorts
from checkwise.errors import InputError
from checkwise.extras import require
from checkwise.figures import FIGURES, write_figures
from checkwise.records import RunKey
from checkwise.study import Cohort
from checkwise.study.pool import Pool


def command(
    paths: Cohorts,
    out: Annotated[Path, typer.Option("--out", help="Folder to write to.")],
    only: Annotated[
        str | None, typer.Option(help=f"Among {', '.join(FIGURES)}. [default: all]")
    ] = None,
    run: Annotated[
        str | None, typer.Option(help="The run that figures of a single run show.")
    ] = None,
    role: Role = None,
    cohort: ImportTo = None,
) -> None:
    """Draw the figures of a study; those that need logits say so where there are none."""
    printing.refuse_folder(out)
    drawn = [name for name in names(only) or FIGURES if name in FIGURES]
    printing.refuse_files(out, [f"{name}{kind}" for name in drawn for kind in (".pdf", ".png")])
    require("matplotlib", "scipy")  # before held-out results are opened
    pool = Pool([Cohort.open(place, role=role) for place in cohorts_at(paths, cohort)])
    screen = printing.console()
    key = _run(pool, run) if run else None
    for name, reason in write_figures(pool, out, only=names(only), run=key):
        screen.print(f"{out / name}.pdf, .png" if reason is None else f"Without {name}: {reason}")


def _run(pool: Pool, name: str) -> RunKey:
    found = {str(key): key for key in pool.keys}
    if name not in found:
        shown = ", ".join(list(found)[:3])
        raise InputError(f"Expected a run such as {shown}, but got {name!r}.")
    return found[name]
