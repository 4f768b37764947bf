"""``checkwise tables``: every table of one or several cohorts as Markdown, CSV and LaTeX."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Annotated

import typer

from checkwise.cli import show
from checkwise.cli.compare import Role, check_metrics, check_named, names
from checkwise.errors import InputError
from checkwise.report import typeset
from checkwise.store.atomic import write_text
from checkwise.study import Cohort
from checkwise.study.pool import Pool
from checkwise.study.tables import Table, build, build_all

Cohorts = Annotated[list[Path], typer.Argument(metavar="COHORT...", help="Folders of cohorts.")]


def command(
    paths: Cohorts,
    out: Annotated[Path, typer.Option("--out", help="Folder to write to.")],
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
    role: Role = None,
) -> None:
    """Write the tables of a study, each as .md, .csv and .tex, and all of them as tables.md."""
    show.refuse_folder(out)
    margins = dict(_margin(text) for text in margin or [])
    pool = Pool([Cohort.open(path, role=role) for path in paths])
    made: Sequence[Table | tuple[str, str]]
    if only is not None:
        check_named(only, "--only", "one table")
        made = [build(name, pool, margins=margins) for name in names(only)]
    else:
        made = list(build_all(pool, margins=margins))
    tables = [each for each in made if isinstance(each, Table)]
    files = dict(_files(tables))
    show.refuse_files(out, files)
    out.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_text(out / name, text)
    screen = show.console()
    screen.print(f"{len(tables)} tables of {len(pool)} runs ({pool.name}) are in {out}.")
    for name, reason in (each for each in made if not isinstance(each, Table)):
        screen.print(f"Without {name}: {reason}")


def _files(tables: Sequence[Table]) -> Iterator[tuple[str, str]]:
    """Every file to write, by its name."""
    for table in tables:
        yield f"{table.name}.md", typeset.markdown(table)
        yield f"{table.name}.csv", table.frame().to_csv(index=False)
        yield f"{table.name}.tex", typeset.latex(table)
    yield "tables.md", "\n".join(typeset.markdown(table) for table in tables)


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
