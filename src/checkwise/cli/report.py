"""``checkwise report``: one self-contained page about a cohort or a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from checkwise.cli import browser, printing
from checkwise.cli.compare import Reference, Role, names
from checkwise.cli.imported_beside import cohort_beside
from checkwise.cli.importing import ImportTo, cohort_at
from checkwise.cli.input_options import InputOptions
from checkwise.cli.option_groups import with_groups
from checkwise.cli.rule_options import RunRuleOptions
from checkwise.errors import InputError
from checkwise.extras import require
from checkwise.page import write_report
from checkwise.page.facts import RULES
from checkwise.records import RunKey, Trajectory
from checkwise.selection.default_rule import REFERENCE
from checkwise.store.cohort import is_cohort
from checkwise.study import Cohort
from checkwise.study.imported import importable


@with_groups
def command(
    path: Annotated[Path, typer.Argument(help="A cohort, a run, a table or a log.")],
    output: Annotated[Path, typer.Option("--output", "--out", "-o", help="The page to write.")],
    rules: Annotated[
        str | None,
        typer.Option(help=f"Rules, comma separated; the first leads. [default: {','.join(RULES)}]"),
    ] = None,
    reference: Reference = REFERENCE,
    *,
    options: RunRuleOptions,
    inputs: InputOptions,
    role: Role = None,
    cohort: ImportTo = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Write one HTML file that opens offline: the answer first, then what it rests on."""
    printing.refuse_to_overwrite(path, output, make_folder=True)
    options.load_plugins()
    asked = names(rules)
    choosing = {**options.weighting, **options.params}
    rule = asked[0] if asked else None
    run = None
    if cohort is None and not is_cohort(path) and not _was_imported(path):
        run = _only_run(path, inputs.load_runs(path, rule, options))
    if run is None:
        require("scipy")  # before held-out results are opened
        study = Cohort.open(cohort_at(path, cohort, request=inputs.request), role=role)
        usual = RULES if study.usual_rule == RULES[0] else (study.usual_rule, "ac-mean")
        write_report(study, output, reference=reference, rules=asked or usual, **choosing)
    else:
        write_report(run, output, rule=rule, **choosing)
    printing.console().print(f"The page is {output.resolve()}")
    if show:
        browser.show(output)


def _was_imported(path: Path) -> bool:
    return cohort_beside(path) is not None and importable(path)


def _only_run(path: Path, runs: Mapping[RunKey, Trajectory]) -> Trajectory | None:
    """The run at a path; None where there are several, in files that can be imported."""
    if len(runs) != 1 and importable(path):
        return None
    if len(runs) != 1:
        shown = ", ".join(key.label for key in list(runs)[:3])
        raise InputError(
            f"Expected one run or a cohort, but {path} holds {len(runs)} runs ({shown}"
            f"{', …' * (len(runs) > 3)}): give the folder of one of them.",
            code="ambiguous",
        )
    return next(iter(runs.values()))
