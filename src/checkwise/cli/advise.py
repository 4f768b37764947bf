"""``checkwise advise``: what to do with what there is, in order of expected gain."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from checkwise.cli import printing
from checkwise.cli.imported_beside import check_sealed
from checkwise.cli.input_options import InputOptions, columns_of, examples_of
from checkwise.cli.json_output import print_json
from checkwise.cli.option_groups import with_groups
from checkwise.cli.options import AsJson


@with_groups
def command(
    path: Annotated[
        Path,
        typer.Argument(metavar="PATH", help="A run, a log, a table, predictions, or a folder."),
    ],
    *,
    inputs: InputOptions,
    as_json: AsJson = False,
) -> None:
    """Look at what there is, and say what to do: steps, commands, and the evidence for each.

    It reads source validation alone, writes nothing, and says what it cannot know.
    """
    from checkwise.advice import advise

    check_sealed(path, inputs.request)
    advice = advise(
        path,
        run=inputs.only_run,
        held_out=inputs.held_out,
        sources=inputs.source,
        columns=columns_of(inputs.column),
        n=examples_of(inputs.n),
        checkpoints=inputs.checkpoints,
        include_unsaved=inputs.include_unsaved,
        bins=inputs.bins,
        bandwidth=inputs.bandwidth,
    )
    if as_json:
        print_json("advise", advice.to_json())
    else:
        printing.console().print(str(advice), soft_wrap=True)
