"""``checkwise figures``: every figure of one or several cohorts as PDF and PNG."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from checkwise.cli import printing
from checkwise.cli.compare import Reference, Role, names
from checkwise.cli.importing import ImportTo, cohorts_at
from checkwise.cli.option_groups import with_groups
from checkwise.cli.options import Data
from checkwise.cli.rule_options import RuleOptions
from checkwise.cli.tables import Cohorts, ContrastRule, pool_about
from checkwise.errors import InputError
from checkwise.extras import require
from checkwise.figures import FIGURES, write_figures
from checkwise.records import RunKey
from checkwise.selection.default_rule import REFERENCE
from checkwise.study import Cohort
from checkwise.study.pool import Pool
from checkwise.sweep.datasets import read_roots


@with_groups
def command(
    paths: Cohorts,
    out: Annotated[Path, typer.Option("--out", "--output", "-o", help="Folder to write to.")],
    only: Annotated[
        str | None, typer.Option(help=f"Among {', '.join(FIGURES)}. [default: all]")
    ] = None,
    run: Annotated[
        str | None, typer.Option(help="The run that figures of a single run show.")
    ] = None,
    rule: ContrastRule = None,
    reference: Reference = REFERENCE,
    *,
    options: RuleOptions,
    example: Annotated[
        int | None,
        typer.Option(
            help="The held-out image that `occlusion` covers. [default: the one that the two "
            "choices differ most about]"
        ),
    ] = None,
    data: Data = None,
    role: Role = None,
    cohort: ImportTo = None,
) -> None:
    """Draw the figures of a study; those that need logits say so where there are none."""
    options.load_plugins()
    printing.refuse_folder(out)
    drawn = [name for name in names(only) or FIGURES if name in FIGURES]
    printing.refuse_files(out, [f"{name}{kind}" for name in drawn for kind in (".pdf", ".png")])
    require("matplotlib", "scipy")  # before held-out results are opened
    cohorts = [Cohort.open(place, role=role) for place in cohorts_at(paths, cohort)]
    pool = pool_about(cohorts, rule, reference, options)
    roots = read_roots(data or ())
    screen = printing.console()
    key = _run(pool, run) if run else None
    for name, reason in write_figures(
        pool, out, only=names(only), run=key, example=example, roots=roots
    ):
        screen.print(f"{out / name}.pdf, .png" if reason is None else f"Without {name}: {reason}")


def _run(pool: Pool, name: str) -> RunKey:
    by_name = {str(key): key for key in pool.keys}
    if name not in by_name:
        shown = ", ".join(list(by_name)[:3])
        raise InputError(f"Expected a run such as {shown}, but got {name!r}.", code="unknown")
    return by_name[name]
