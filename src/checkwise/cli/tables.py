"""``checkwise tables``: every table of one or several cohorts as Markdown, CSV and LaTeX."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Annotated

import typer

from checkwise.cli import printing
from checkwise.cli.compare import Reference, Role, check_metrics, check_named, names
from checkwise.cli.importing import ImportTo, cohorts_at
from checkwise.cli.option_groups import with_groups
from checkwise.cli.printing import csv_text
from checkwise.cli.rule_options import RuleOptions
from checkwise.errors import InputError
from checkwise.extras import require
from checkwise.selection import DEFAULT_RULE
from checkwise.selection.default_rule import REFERENCE
from checkwise.store.atomic_write import write_text
from checkwise.study import Cohort
from checkwise.study.methods import with_shared
from checkwise.study.pool import Pool
from checkwise.study.rehearsal import Rehearsal
from checkwise.tables import (
    ABOUT_THE_RULE,
    Table,
    build,
    build_all,
    check_name,
    typeset,
    usual_names,
)

KINDS = (".md", ".csv", ".tex")
ALL = "tables.md"
Cohorts = Annotated[
    list[Path],
    typer.Argument(metavar="COHORT...", help="Cohorts; or logs or tables, which are imported."),
]
ContrastRule = Annotated[
    str | None,
    typer.Option(
        "--rule",
        help="The rule that is compared with the reference. "
        f"[default: {DEFAULT_RULE}, or the best rule that the data allow]",
    ),
]


@with_groups
def command(
    paths: Cohorts,
    out: Annotated[Path, typer.Option("--out", "--output", "-o", help="Folder to write to.")],
    only: Annotated[
        str | None, typer.Option(help="Tables to write, comma separated. [default: all]")
    ] = None,
    margin: Annotated[
        list[str] | None,
        typer.Option(
            help="METRIC=SIZE, the largest harmless change (target_accuracy=0.5): adds the "
            "equivalence table."
        ),
    ] = None,
    rule: ContrastRule = None,
    reference: Reference = REFERENCE,
    *,
    options: RuleOptions,
    role: Role = None,
    cohort: ImportTo = None,
) -> None:
    """Write the tables of a study, each as .md, .csv and .tex, and all of them as tables.md."""
    options.load_plugins()
    printing.refuse_folder(out)
    margins = dict(_margin(text) for text in margin or [])
    if only is not None:
        check_named(only, "--only", "one table")
    asked = usual_names(margins) if only is None else names(only)
    for name in asked:
        check_name(name, margins)
    printing.refuse_files(out, [*(f"{name}{kind}" for name in asked for kind in KINDS), ALL])
    require("scipy")  # before held-out results are opened
    cohorts = [Cohort.open(place, role=role) for place in cohorts_at(paths, cohort)]
    pool = pool_about(cohorts, rule, reference, options)
    results: Sequence[Table | tuple[str, str]]
    if only is not None:
        rehearsal = Rehearsal.of_pool(pool)
        for name in asked:
            build(name, rehearsal, margins=margins)  # refuses before held-out results are opened
        results = [build(name, pool, margins=margins) for name in asked]
    else:
        results = list(build_all(pool, margins=margins))
    tables = [result for result in results if isinstance(result, Table)]
    out.mkdir(parents=True, exist_ok=True)
    for name, text in _files(tables):
        write_text(out / name, text)
    screen = printing.console()
    fixed = [table.name for table in tables if table.name not in ABOUT_THE_RULE]
    if pool.contrast != f"{DEFAULT_RULE} − {REFERENCE}" and fixed:
        screen.print(
            f"About {DEFAULT_RULE} and others at their defaults, whatever the options say: "
            f"{', '.join(fixed)}."
        )
    screen.print(f"{len(tables)} tables of {len(pool)} runs ({pool.name}) are in {out}.")
    for name, reason in (result for result in results if not isinstance(result, Table)):
        screen.print(f"Without {name}: {reason}")


def pool_about(
    cohorts: Sequence[Cohort], rule: str | None, reference: str, options: RuleOptions
) -> Pool:
    """The runs, and the contrast that tables and figures of one contrast are about."""
    options.refuse_weighting("tables and figures")
    usual = next((cohort.usual_rule for cohort in cohorts if cohort.imported), DEFAULT_RULE)
    rows = with_shared((rule or usual, reference), options.params)
    about, against = (replace(row, title="") for row in rows)  # its name and what was set
    for study in cohorts:
        for row in (about, against):
            study.outcomes(row, held_out=False)  # refuses what cannot choose here
    return Pool(cohorts, rule=about, reference=against)


def _files(tables: Sequence[Table]) -> Iterator[tuple[str, str]]:
    """Every file to write, by its name."""
    for table in tables:
        contents = (
            typeset.markdown(table),
            csv_text(table.frame()),
            typeset.latex(table),
        )
        for kind, text in zip(KINDS, contents, strict=True):
            yield f"{table.name}{kind}", text
    yield ALL, "\n".join(typeset.markdown(table) for table in tables)


def _margin(text: str) -> tuple[str, float]:
    name, _, written = text.partition("=")
    metric = name.strip()
    try:
        size = float(written)
    except ValueError:
        raise InputError(
            f"Expected a margin as METRIC=SIZE, such as target_accuracy=0.5, but got {text!r}."
        ) from None
    check_metrics([metric])
    if not 0 < size < inf:
        raise InputError(
            f"Expected a finite margin above 0 (the largest difference that would not matter), but "
            f"got {written.strip()} for {metric}: give one."
        )
    return metric, size
