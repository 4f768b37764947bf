"""Options and progress that commands about training share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from checkwise.cli import show

StudyName = Annotated[
    str, typer.Argument(metavar="STUDY", help="A study file, or the name of a shipped study.")
]
Data = Annotated[
    list[str] | None,
    typer.Option("--data", help="NAME=PATH of a data set; repeatable. Or set CHECKWISE_DATA."),
]
CohortFolder = Annotated[Path, typer.Argument(metavar="DIR", help="A cohort, or one run of it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


@contextmanager
def steps(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar fed with (done, total); None where there is no terminal to draw it on."""
    out = show.console(stderr=True)
    if not out.is_terminal:
        yield None
        return
    with Progress(transient=True, console=out) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
