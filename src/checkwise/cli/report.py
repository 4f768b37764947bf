"""``checkwise report``: one self-contained page about a cohort or a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from checkwise.cli import printing
from checkwise.cli.compare import Delta, Norm, Reference, Role, names
from checkwise.cli.options import Column, HeldOut, Plugins, Source, load_plugins
from checkwise.cli.rule_options import Choice
from checkwise.errors import InputError
from checkwise.extras import require
from checkwise.page import write_report
from checkwise.page.facts import RULES
from checkwise.records import Trajectory
from checkwise.store.cohort import is_cohort
from checkwise.study import Cohort
from checkwise.study.cohort import REFERENCE


def command(
    path: Annotated[Path, typer.Argument(help="A cohort, a run, a table or a log.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")],
    rules: Annotated[
        str | None,
        typer.Option(help=f"Rules, comma separated; the first leads. [default: {','.join(RULES)}]"),
    ] = None,
    reference: Reference = REFERENCE,
    delta_pp: Delta = None,
    q: Norm = None,
    role: Role = None,
    held_out: HeldOut = None,
    source: Source = None,
    column: Column = None,
    plugin: Plugins = None,
) -> None:
    """Write one HTML file that opens offline: the answer first, then what it rests on."""
    printing.refuse_to_overwrite(path, output, make_folder=True)
    load_plugins(plugin)
    choice = Choice(delta_pp=delta_pp, q=q, held_out=held_out, source=source, column=column)
    asked = names(rules)
    if is_cohort(path):
        require("scipy")  # before held-out results are opened
        compared: dict[str, Any] = {"rules": asked} if asked else {}
        write_report(
            Cohort.open(path, role=role), output, reference=reference, **compared, **choice.params
        )
    else:
        run = _only_run(choice, path)
        write_report(run, output, rule=asked[0] if asked else None, **choice.params)
    printing.console().print(f"The page is {output.resolve()}")


def _only_run(choice: Choice, path: Path) -> Trajectory:
    runs = choice.load_runs(path)
    if len(runs) != 1:
        shown = ", ".join(str(key) for key in list(runs)[:3])
        raise InputError(
            f"Expected one run or a cohort, but {path} holds {len(runs)} runs ({shown}"
            f"{', …' * (len(runs) > 3)}): give the folder of one of them; of several runs in one "
            "file, write a page from Python with `load_runs` and `write_report`."
        )
    return next(iter(runs.values()))
