"""``checkwise export``: copy the chosen weights, with a record of why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from checkwise.cli import options, show
from checkwise.errors import InputError
from checkwise.integrations import load
from checkwise.selection import select
from checkwise.store.atomic import copy_file, write_text


def command(
    run: Annotated[Path, typer.Argument(help="A run whose checkpoints have weights on disk.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to put the weights.")],
    rule: options.RuleName = options.DEFAULT_RULE,
    delta_pp: options.Delta = None,
    q: options.Q = None,
    objectives: options.Objectives = None,
    threshold_pp: options.Threshold = None,
    pareto: options.Pareto = False,
    param: options.Parameters = None,
    weights: options.DomainWeights = "equal",
    worst_domain: options.WorstDomain = False,
    held_out: options.HeldOut = None,
    bins: options.Bins = 15,
    bandwidth: options.Bandwidth = 0.1,
    plugin: options.Plugins = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
) -> None:
    """Copy the weights of the chosen checkpoint; FILE.json beside them says why."""
    options.load_plugins(plugin)
    params = options.read_params(
        delta_pp=delta_pp,
        q=q,
        objectives=objectives,
        threshold_pp=threshold_pp,
        pareto=pareto,
        further=param,
    )
    with show.checkpoint_progress() as progress:
        trajectory = load(
            run,
            held_out=held_out,
            metrics=params.get("objectives", ()),
            bins=bins,
            bandwidth=bandwidth,
            progress=progress,
        )
    asked: dict[str, Any] = {
        "weights": options.read_weights(weights),
        "worst_domain": worst_domain,
    }
    selection = select(trajectory, rule, **asked, **params)
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
