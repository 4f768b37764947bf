"""``checkwise report``: one self-contained page about a cohort or a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from checkwise.cli import printing
from checkwise.cli.compare import Reference, Role, names
from checkwise.cli.input_options import InputOptions
from checkwise.cli.option_groups import with_groups
from checkwise.cli.rule_options import RuleOptions
from checkwise.errors import InputError
from checkwise.extras import require
from checkwise.page import write_report
from checkwise.page.facts import RULES
from checkwise.records import RunKey, Trajectory
from checkwise.store.cohort import is_cohort
from checkwise.study import Cohort
from checkwise.study.cohort import REFERENCE


@with_groups
def command(
    path: Annotated[Path, typer.Argument(help="A cohort, a run, a table or a log.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")],
    rules: Annotated[
        str | None,
        typer.Option(help=f"Rules, comma separated; the first leads. [default: {','.join(RULES)}]"),
    ] = None,
    reference: Reference = REFERENCE,
    *,
    options: RuleOptions,
    inputs: InputOptions,
    role: Role = None,
) -> None:
    """Write one HTML file that opens offline: the answer first, then what it rests on."""
    printing.refuse_to_overwrite(path, output, make_folder=True)
    options.load_plugins()
    asked = names(rules)
    choosing = {**options.weighting, **options.params}
    if is_cohort(path):
        require("scipy")  # before held-out results are opened
        compared: dict[str, Any] = {"rules": asked} if asked else {}
        write_report(
            Cohort.open(path, role=role), output, reference=reference, **compared, **choosing
        )
    else:
        rule = asked[0] if asked else None
        run = _only_run(path, inputs.load_runs(path, rule, options))
        write_report(run, output, rule=rule, **choosing)
    printing.console().print(f"The page is {output.resolve()}")


def _only_run(path: Path, runs: Mapping[RunKey, Trajectory]) -> Trajectory:
    if len(runs) != 1:
        shown = ", ".join(str(key) for key in list(runs)[:3])
        raise InputError(
            f"Expected one run or a cohort, but {path} holds {len(runs)} runs ({shown}"
            f"{', …' * (len(runs) > 3)}): give the folder of one of them; of several runs in one "
            "file, write a page from Python with `load_runs` and `write_report`."
        )
    return next(iter(runs.values()))
