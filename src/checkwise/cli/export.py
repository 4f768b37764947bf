"""``checkwise export``: copy the chosen weights, with a record of why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from checkwise.cli import show
from checkwise.cli.choice import Choice, with_choice
from checkwise.errors import InputError
from checkwise.selection import select
from checkwise.store.atomic import copy_file, write_text


@with_choice
def command(
    run: Annotated[Path, typer.Argument(help="A run whose checkpoints have weights on disk.")],
    choice: Choice,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to put the weights.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
) -> None:
    """Copy the weights of the chosen checkpoint; FILE.json beside them says why."""
    runs = choice.load_runs(run)
    if len(runs) > 1:
        raise InputError(f"Expected one run in {run}, but found {len(runs)}: name one of them.")
    trajectory = next(iter(runs.values()))
    selection = select(trajectory, choice.rule, **choice.weighting, **choice.params)
    if selection.path is None or not Path(selection.path).is_file():
        raise InputError(
            f"Step {selection.step} was chosen, but {run} has no weights file for it "
            f"({selection.path or 'no path is known'}): keep the checkpoints of every record."
        )
    why = output.with_name(output.name + ".json")
    for file in (output, why):
        if file.exists() and not force:
            raise InputError(f"{file} exists already: choose another name or add --force.")
    copy_file(Path(selection.path), output)
    reasons = {**selection.as_dict(), "explanation": selection.explain()}
    write_text(why, json.dumps(reasons, indent=2, allow_nan=False) + "\n")
    show.console().print(selection.explain())
    show.console().print(f"Weights copied to {output}; {why.name} says why.")
