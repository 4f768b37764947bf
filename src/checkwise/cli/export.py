"""``checkwise export``: copy the chosen weights, with a record of why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from checkwise.cli import printing
from checkwise.cli.input_options import InputOptions
from checkwise.cli.option_groups import with_groups
from checkwise.cli.rule_options import RuleName, RunRuleOptions
from checkwise.errors import InputError
from checkwise.records import Trajectory
from checkwise.selection import Selection, select
from checkwise.store import layout
from checkwise.store.atomic_write import copy_file, write_text
from checkwise.store.done import read_recorded
from checkwise.store.safe_read import has_file


@with_groups
def command(
    run: Annotated[Path, typer.Argument(help="A run whose checkpoints have weights on disk.")],
    output: Annotated[
        Path,
        typer.Option("--output", "--out", "-o", help="Where to put the weights."),
    ],
    rule: RuleName = None,
    *,
    options: RunRuleOptions,
    inputs: InputOptions,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
) -> None:
    """Copy the weights of the chosen checkpoint; FILE.json beside them says why."""
    printing.refuse_to_overwrite(run, output)
    why = output.with_name(output.name + ".json")
    printing.refuse_to_overwrite(run, why)
    runs = inputs.load_runs(run, rule, options)
    if len(runs) > 1:
        raise InputError(f"Expected one run in {run}, but found {len(runs)}: name one of them.")
    trajectory = next(iter(runs.values()))
    for file in (output, why):
        _refuse_weights(trajectory, file)
    selection = select(trajectory, rule, **options.weighting, **options.params)
    weights = _weights(selection, run)
    for file in (output, why):
        if file.exists() and not force:
            raise InputError(f"{file} exists already: choose another name or add --force.")
    copy_file(weights, output)
    reasons = {**selection.as_dict(), "explanation": selection.explain()}
    write_text(why, json.dumps(reasons, indent=2, allow_nan=False) + "\n")
    printing.console().print(selection.explain())
    printing.console().print(f"Weights copied to {output}; {why.name} says why.")


def _refuse_weights(trajectory: Trajectory, out: Path) -> None:
    """An export must not replace a checkpoint of the run, not even through a link."""
    checkpoints = (Path(path) for path in trajectory.paths or () if path is not None)
    if any(path.exists() and out.exists() and path.samefile(out) for path in checkpoints):
        raise InputError(
            f"Expected another file to write than {out}, which is a checkpoint of the run: choose "
            "another name."
        )


def _weights(selection: Selection, run: Path) -> Path:
    if selection.path is None:
        raise InputError(
            f"Expected the weights of step {selection.step}, which was chosen, but {run} names no "
            "file for it: keep the checkpoint of every record (in a table, a column `path`)."
        )
    if not Path(selection.path).is_file():
        raise InputError(
            f"Expected the weights of step {selection.step}, which was chosen, but there is no "
            f"file {selection.path}: keep it, and give paths that hold in the current folder."
        )
    path = Path(selection.path)
    folder = path.parent.parent
    if path.parent.name == layout.CHECKPOINTS and has_file(folder, layout.RUN):
        read_recorded(folder, f"{layout.CHECKPOINTS}/{path.name}")
    return path
