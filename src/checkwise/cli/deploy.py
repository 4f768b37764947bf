"""``checkwise deploy``: a folder with the chosen or averaged model, calibrated, and a card."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from checkwise.cli import printing
from checkwise.cli.input_options import InputOptions
from checkwise.cli.json_output import print_json
from checkwise.cli.option_groups import with_groups
from checkwise.cli.options import AsJson, Data
from checkwise.cli.rule_options import RuleName, RunRuleOptions
from checkwise.errors import InputError
from checkwise.selection.members import MEMBERS_DELTA_PP
from checkwise.text import counted


@with_groups
def command(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", help="A run, a predictions folder or a trainer's folder, with weights."
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "--out", "-o", help="The new folder, such as model/.")
    ],
    rule: RuleName = None,
    average: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT",
            help="probabilities (an ensemble) or weights (one model) of the checkpoints within "
            f"--delta-pp of the best, by default {MEMBERS_DELTA_PP}. [default: one checkpoint]",
        ),
    ] = None,
    members: Annotated[
        str | None,
        typer.Option(
            metavar="K|all", help="How many to average: K spread evenly, or all. [default: all]"
        ),
    ] = None,
    for_: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="new|same",
            help="Where it is used: new places, never more confident than as trained, or data "
            "like validation, one temperature as it fits. [default: new]",
        ),
    ] = None,
    calibrator: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|none",
            help="Another way to calibrate, instead of --for. [default: that of --for]",
        ),
    ] = None,
    *,
    options: RunRuleOptions,
    inputs: InputOptions,
    data: Data = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a model that was deployed there.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a folder that can be deployed: weights, calibrator, a card that says why, digests.

    Use `export` for a copy of one checkpoint as the trainer saved it, to go on training or to load
    it as before. Use `deploy` for a model whose probabilities are used: it averages if asked,
    calibrates on source validation, and `checkwise.deployed.load` reads the folder.
    """
    from checkwise.sweep.datasets import read_roots
    from checkwise.weights.bundle import check_out
    from checkwise.weights.deploy import Asked, deploy_run

    asked = Asked(average, _members(members), calibrator, for_)  # type: ignore[arg-type]
    check_out(output, replace=force)
    runs = inputs.load_runs(path, rule, options)
    if len(runs) > 1:
        raise InputError(
            f"Expected one run in {path}, but found {len(runs)}: name one with --run.",
            code="ambiguous",
        )
    deployment = deploy_run(
        path,
        next(iter(runs.values())),
        output,
        asked,
        rule=rule,
        choosing={**options.weighting, **options.params},
        roots=read_roots(data or ()),
        force=force,
    )
    if as_json:
        print_json("deploy", {"path": str(output), **deployment.info})
        return
    out = printing.console()
    info = deployment.info
    steps = ", ".join(map(str, info["steps"]))
    what = {
        "single": f"step {steps}",
        "weights-mean": f"the mean weights of {counted(len(info['steps']), 'step')}: {steps}",
        "ensemble": f"{counted(len(info['steps']), 'member')}: steps {steps}",
    }[info["kind"]]
    out.print(f"Deployed {what}.")
    if info["calibrator"] is not None:  # without one a note says why
        out.print(info["calibration"])
    for note in deployment.notes:
        out.print(f"note: {note}")
    out.print(f"{output} is complete; {output / 'card.md'} says what it is and what it is not.")


def _members(text: str | None) -> int | str | None:
    if text is None or text == "all":
        return text
    if not text.isascii() or not text.isdigit() or int(text[:9]) < 1:
        raise InputError(f"Expected --members as a number or all, but got {text!r:.40}.")
    return int(text[:9])
