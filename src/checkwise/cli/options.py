"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from checkwise.plugins import Plugin, load_plugin

HeldOut = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="A set (domain) that must not be read; repeatable."),
]
Source = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="A set that is validation although its name looks held out (test, ood); repeatable.",
    ),
]
Column = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=COLUMN",
        help="Read a column of a log or table as NAME: accuracy=val/top1, nll=val/loss; "
        "repeatable.",
    ),
]
Checkpoints = Annotated[
    str | None,
    typer.Option(
        metavar="PATTERN",
        help="Names of the checkpoints, where checkwise does not find them by itself: "
        "'weights.{epoch+1}.keras', 'checkpoint-{step}'.",
    ),
]
IncludeUnsaved = Annotated[
    bool,
    typer.Option(
        "--include-unsaved", help="Allow logged steps whose checkpoint was not saved or is gone."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        help="A Python file or module with rules, metrics or algorithms of your own; repeatable.",
    ),
]


def load_plugins(names: list[str] | None) -> tuple[Plugin, ...]:
    """Import files or modules whose decorators register what is in them."""
    return tuple(load_plugin(name) for name in names or ())


StudyName = Annotated[
    str, typer.Argument(metavar="STUDY", help="A study file, or the name of a shipped study.")
]
Data = Annotated[
    list[str] | None,
    typer.Option("--data", help="NAME=PATH of a data set; repeatable. Or set CHECKWISE_DATA."),
]
CohortFolder = Annotated[Path, typer.Argument(metavar="DIR", help="A cohort.")]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Processes. [default: one per core]")
]
Algorithms = Annotated[
    list[str] | None, typer.Option("--algorithm", help="Only this algorithm; repeatable.")
]
OnlyHeldOut = Annotated[
    list[str] | None, typer.Option("--held-out", help="Only this held-out domain; repeatable.")
]
HparamsSeeds = Annotated[
    list[int] | None,
    typer.Option("--hparams-seed", help="Only this hyperparameter seed; repeatable."),
]
TrialSeeds = Annotated[
    list[int] | None, typer.Option("--trial-seed", help="Only this trial seed; repeatable.")
]
ResumeSeconds = Annotated[
    float, typer.Option("--resume-seconds", min=0, help="Least time between saved states of a run.")
]
Takeover = Annotated[
    float,
    typer.Option(
        "--takeover",
        metavar="SECONDS",
        min=1,
        help="Take over a run whose worker shows no sign of life for this long.",
    ),
]
Retries = Annotated[
    int, typer.Option("--retries", min=0, help="How often a run that fails is tried again.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan, train nothing.")]


ValidationSet = Annotated[
    str | None,
    typer.Option(
        "--validation",
        metavar="NAME",
        help="examples or groups: which validation set to read, of runs trained with "
        'split_by = "both". [default: examples]',
    ),
]
