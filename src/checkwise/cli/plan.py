"""``checkwise plan``: write a study's plan and prepare its data, so that workers can start."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from checkwise.cli import printing
from checkwise.cli.options import (
    Algorithms,
    Data,
    HparamsSeeds,
    OnlyHeldOut,
    Plugins,
    StudyName,
    TrialSeeds,
    load_plugins,
)
from checkwise.cli.progress import counting
from checkwise.cli.sweep import narrowed
from checkwise.text import counted


def command(
    study: StudyName,
    out: Annotated[Path, typer.Option("--out", "--output", "-o", help="The cohort's folder.")],
    data: Data = None,
    algorithm: Algorithms = None,
    held_out: OnlyHeldOut = None,
    hparams_seed: HparamsSeeds = None,
    trial_seed: TrialSeeds = None,
    plugin: Plugins = None,
) -> None:
    """Plan the runs of STUDY in DIR and prepare the data; train nothing.

    Workers that `checkwise work DIR` starts, on any machine that sees the folder, then train the
    runs. Plan again to let them retry runs that failed.
    """
    from checkwise.sweep.checks import check_sweep
    from checkwise.sweep.datasets import all_roots, read_roots
    from checkwise.sweep.executors.settings import ExecutorSettings
    from checkwise.sweep.plan import begin_round, make_cohort
    from checkwise.sweep.run import prepare_caches
    from checkwise.sweep.study_file import read_study

    plugins = load_plugins(plugin)
    chosen = narrowed(
        read_study(study).with_plugins(plugins), algorithm, held_out, hparams_seed, trial_seed
    )
    roots = all_roots(chosen, read_roots(data or ()))
    check_sweep(chosen, roots, settings=ExecutorSettings(), out=out)
    cohort = make_cohort(chosen, out, roots)
    with counting("preparing data") as step:
        prepare_caches(chosen, roots, progress=step)
    begin_round(cohort.path, roots)
    options = "".join(f" --plugin {word}" for word in plugin or ())
    printing.console().print(
        f"{counted(len(cohort.runs), 'run')} planned in {out}. Start workers with: checkwise work "
        f"{out}{options}"
    )
