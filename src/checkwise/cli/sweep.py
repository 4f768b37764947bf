"""``checkwise sweep``: train every run of a study."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from checkwise.cli import printing
from checkwise.cli.executor_options import ExecutorOptions
from checkwise.cli.option_groups import with_groups
from checkwise.cli.options import (
    Algorithms,
    Data,
    DryRun,
    HparamsSeeds,
    OnlyHeldOut,
    Plugins,
    ResumeSeconds,
    Retries,
    StudyName,
    Takeover,
    TrialSeeds,
    load_plugins,
)
from checkwise.cli.progress import counting, remaining_text, watching_runs
from checkwise.store.failures import RETRIES
from checkwise.store.lease import STALE_SECONDS
from checkwise.text import counted

SPLIT_WORDS = {"groups": "whole groups", "both": "examples and, beside them, by whole groups"}

if TYPE_CHECKING:
    from checkwise.sweep.run import SweepResult
    from checkwise.sweep.study import Study


@with_groups
def command(
    study: StudyName,
    out: Annotated[
        Path | None,
        typer.Option("--out", "--output", "-o", help="The cohort's folder."),
    ] = None,
    *,
    launching: ExecutorOptions,
    data: Data = None,
    algorithm: Algorithms = None,
    held_out: OnlyHeldOut = None,
    hparams_seed: HparamsSeeds = None,
    trial_seed: TrialSeeds = None,
    resume_seconds: ResumeSeconds = 20.0,
    takeover: Takeover = STALE_SECONDS,
    retries: Retries = RETRIES,
    plugin: Plugins = None,
    dry_run: DryRun = False,
) -> int:
    """Train the runs of STUDY that are not finished in DIR. Safe to interrupt and to repeat.

    `checkwise work DIR` adds a worker from anywhere.
    """
    from checkwise.errors import InputError
    from checkwise.sweep.checks import check_sweep
    from checkwise.sweep.datasets import all_roots, check_roots, read_roots, with_domains
    from checkwise.sweep.executors import worker_count
    from checkwise.sweep.plan import make_cohort, plan
    from checkwise.sweep.prepare_job import prepare_with
    from checkwise.sweep.run import run_sweep
    from checkwise.sweep.study_file import read_executor, read_study

    plugins = load_plugins(plugin)
    chosen = narrowed(
        read_study(study).with_plugins(plugins), algorithm, held_out, hparams_seed, trial_seed
    )
    named_roots = read_roots(data or ())
    settings = launching.over(read_executor(study))
    if dry_run:
        check_roots(chosen, named_roots)
        known, absent = with_domains(chosen, named_roots)
        check_sweep(chosen, named_roots, settings=settings, out=out, absent=absent)
        runs = len(plan(known, named_roots))
        _show_plan(chosen, runs, absent, named_roots, worker_count(settings))
        return 0
    if out is None:
        raise InputError(
            "Expected --out DIR, the folder to train in, but got none: add it.", code="missing"
        )
    roots = all_roots(chosen, named_roots)
    # Before the plan is written, which no other study may replace.
    launcher = check_sweep(chosen, roots, settings=settings, out=out)
    cohort = make_cohort(chosen, out, roots)
    with counting("preparing data") as step:
        prepare_with(launcher, cohort, chosen, roots, plugins=plugins, progress=step)
    with watching_runs() as watch:
        outcome = run_sweep(
            cohort,
            launcher,
            workers=worker_count(settings),
            roots=roots,
            resume_seconds=resume_seconds,
            takeover=takeover,
            retries=retries,
            plugins=plugins,
            watch=watch,
        )
    return report(outcome, out)


def narrowed(
    study: Study,
    algorithm: list[str] | None,
    held_out: list[str] | None,
    hparams_seed: list[int] | None,
    trial_seed: list[int] | None,
) -> Study:
    """The study with only the runs that options ask for."""
    return study.narrowed(
        algorithms=tuple(algorithm or ()),
        held_out=tuple(held_out or ()),
        hparams_seeds=tuple(hparams_seed or ()),
        trial_seeds=tuple(trial_seed or ()),
    )


def report(outcome: SweepResult, out: Path) -> int:
    """Say how a sweep ended; the exit code is 0 only where every run is finished."""
    console = printing.console()
    done, failed = outcome.count("finished"), outcome.count("failed")
    console.print(f"{done} of {len(outcome.runs)} runs finished in {out}.")
    if failed:
        first = next(run for run in outcome.runs if run.state == "failed")
        console.print(
            f"{failed} failed; the first, {first.key}: {first.reason} "
            "Run the same command again to retry them."
        )
    left = len(outcome.runs) - done - failed
    if left:
        console.print(
            f"{left} are not finished. The same command continues them where they stopped."
        )
    if outcome.interrupted:
        return 130
    return 0 if done == len(outcome.runs) else 1


def _show_plan(
    study: Study, runs: int, absent: tuple[str, ...], named_roots: dict[str, str], workers: int
) -> None:
    from checkwise.errors import InputError
    from checkwise.sweep.estimate import estimate

    console = printing.console()
    console.print(
        f"{study.name}: {runs} runs of {study.steps} updates, a record every "
        f"{study.record_every}; {study.network.kind} network, weights kept: {study.keep}"
    )
    for spec in study.data:
        each = "each domain" if spec.places is None else f"each of {spec.places} places a domain"
        held_out = ", ".join("+".join(names) for names in spec.held_out or [(each,)])
        console.print(f"  {spec.name} ({spec.role}), held out: {held_out}")
    console.print(f"  algorithms: {', '.join(study.algorithms)}")
    numbers = ", ".join(map(str, study.hparams_seeds))
    console.print(
        f"  draws {numbers} of every algorithm and held-out set, each with its own seeds"
        if study.draws
        else f"  hparams seeds {numbers}; trial seeds {', '.join(map(str, study.trial_seeds))}"
    )
    if study.split_by != "examples":
        console.print(f"  validation by {SPLIT_WORDS[study.split_by]}")
    if absent:
        console.print(f"Held-out names not checked: {', '.join(absent)} not found.")
    try:
        needs = estimate(study, runs, named_roots, workers=workers)
    except InputError as error:
        console.print(f"No estimate of time and disk: {error}")
        return
    console.print(
        f"About {remaining_text(needs.seconds)} with {counted(workers, 'worker')} on this machine "
        f"({remaining_text(needs.seconds_per_run)} a run) and {needs.gigabytes:.2g} GB of disk."
        + (f" First {remaining_text(needs.preparing)} for cached features." * (needs.preparing > 0))
    )
