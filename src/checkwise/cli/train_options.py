"""Options that commands about training share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

StudyName = Annotated[
    str, typer.Argument(metavar="STUDY", help="A study file, or the name of a shipped study.")
]
Data = Annotated[
    list[str] | None,
    typer.Option("--data", help="NAME=PATH of a data set; repeatable. Or set CHECKWISE_DATA."),
]
CohortFolder = Annotated[Path, typer.Argument(metavar="DIR", help="A cohort, or one run of it.")]
ExecutorName = Annotated[str, typer.Option("--executor", help="Where workers run.")]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Processes. [default: one per core]")
]
Algorithms = Annotated[
    list[str] | None, typer.Option("--algorithm", help="Only this algorithm; repeatable.")
]
HparamsSeeds = Annotated[
    list[int] | None,
    typer.Option("--hparams-seed", help="Only this hyperparameter seed; repeatable."),
]
TrialSeeds = Annotated[
    list[int] | None, typer.Option("--trial-seed", help="Only this trial seed; repeatable.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan, train nothing.")]
