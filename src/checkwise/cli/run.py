"""``checkwise study run`` and ``work``: train the runs of a study, here or as one of many."""

from __future__ import annotations

import os
import shlex
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkwise.cli import printing
from checkwise.cli.command import argument, command, option, takes
from checkwise.cli.options import data_option, load_plugins, out_option, plugin_option
from checkwise.cli.progress import counting, remaining_text, watching_runs
from checkwise.cli.workers import LIMITS, RunFilters, Training, read_settings, set_option
from checkwise.errors import InputError
from checkwise.predict import ONE_THREAD
from checkwise.words import counted

if TYPE_CHECKING:
    from checkwise.plugins import Plugin
    from checkwise.study.folder import CohortRecord
    from checkwise.study.sweep import Executor, ExecutorSettings, Study, SweepResult

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
SPLIT_WORDS = {"groups": "whole groups", "both": "examples and, beside them, by whole groups"}


@command(
    "run",
    examples=[
        "checkwise study run study.toml --dry-run",
        "checkwise study run study.toml -o out --workers 4",
        "checkwise study run study.toml -o one --algorithm ERM --held-out art --trial-seed 0",
        "checkwise study run study.toml -o out --plan-only",
    ],
)
@argument("study", type=str)
@data_option
@plugin_option
@option(
    "--plan-only", "Plan the runs and prepare the data, for `checkwise study work`; train nothing."
)
@option("--dry-run", "Show the plan, train nothing.")
@takes(RunFilters, "only")
@takes(Training, "launching")
@out_option.but(help="The study's folder.")
def run_command(
    study: str,
    data: tuple[str, ...],
    plugin: tuple[str, ...],
    plan_only: bool,
    dry_run: bool,
    only: RunFilters,
    launching: Training,
    out: Path | None,
) -> int:
    """Train the runs of STUDY, a file or a shipped name, that are not finished in --out.

    Safe to interrupt and to repeat. `checkwise study work DIR` adds a worker from anywhere.
    """
    from checkwise.study.sweep import all_roots, begin_round, read_executor, read_roots, read_study

    plugins = load_plugins(plugin)
    chosen = only.narrowed(read_study(study).with_plugins(plugins))
    named_roots = read_roots(data)
    settings = launching.over(read_executor(study))
    if dry_run:
        _show_plan(chosen, named_roots, settings, out)
        return 0
    if out is None:
        raise InputError(
            "Expected --out DIR, the folder to train in, but got none: add it.", code="missing"
        )
    roots = all_roots(chosen, named_roots)
    if not plan_only:
        done = run_study(chosen, out, roots, settings, plugins=plugins, limits=launching.limits)
        return report(done, out)
    _, cohort = _prepare(chosen, out, roots, settings, plugins)
    begin_round(cohort.path, roots)
    worker = ["checkwise", "study", "work", str(out)]
    worker += [word for name in plugin for word in ("--plugin", name)]
    printing.say(
        f"{counted(len(cohort.runs), 'run')} planned in {out}. Start workers with: "
        f"{shlex.join(worker)}"
    )
    return 0


def run_study(
    study: Study,
    out: Path,
    roots: Mapping[str, str],
    settings: ExecutorSettings,
    *,
    plugins: Sequence[Plugin] = (),
    limits: Mapping[str, Any] | None = None,
) -> SweepResult:
    """Train what is not finished in ``out``, and show how far it is; ``limits`` are of workers."""
    from checkwise.study.sweep import run_sweep, worker_count

    launcher, cohort = _prepare(study, out, roots, settings, plugins)
    with watching_runs() as watch:
        return run_sweep(
            cohort,
            launcher,
            workers=worker_count(settings),
            roots=roots,
            plugins=plugins,
            watch=watch,
            **limits or {},
        )


def _prepare(
    study: Study,
    out: Path,
    roots: Mapping[str, str],
    settings: ExecutorSettings,
    plugins: Sequence[Plugin],
) -> tuple[Executor, CohortRecord]:
    """Write the plan, which no other study may replace, once everything was checked."""
    from checkwise.study.sweep import check_sweep, make_cohort, prepare_with

    launcher = check_sweep(study, roots, settings=settings, out=out)
    cohort = make_cohort(study, out, roots)
    with counting("preparing data") as step:
        prepare_with(launcher, cohort, study, roots, plugins=plugins, progress=step)
    return launcher, cohort


def report(outcome: SweepResult, out: Path) -> int:
    """Say how the training ended; the exit code is 0 only where every run is finished."""
    done, failed = outcome.count("finished"), outcome.count("failed")
    printing.say(f"{done} of {len(outcome.runs)} runs finished in {out}.")
    if failed:
        first = next(run for run in outcome.runs if run.state == "failed")
        printing.say(
            f"{failed} failed; the first, {first.key}: {first.reason} "
            "Run the same command again to retry them."
        )
    if left := len(outcome.runs) - done - failed:
        printing.say(
            f"{left} are not finished. The same command continues them where they stopped."
        )
    if outcome.interrupted:
        return 128 + outcome.interrupted
    return 0 if done == len(outcome.runs) else 1


def _show_plan(
    study: Study, named_roots: Mapping[str, str], settings: ExecutorSettings, out: Path | None
) -> None:
    """What would be trained, after the checks that training makes first."""
    from checkwise.study.sweep import (
        check_roots,
        check_sweep,
        estimate,
        plan,
        with_domains,
        worker_count,
    )

    check_roots(study, named_roots)
    known, absent = with_domains(study, named_roots)
    check_sweep(study, named_roots, settings=settings, out=out, absent=absent)
    runs, workers = len(plan(known, named_roots)), worker_count(settings)
    lines = [
        f"{study.name}: {runs} runs of {study.steps} updates, a record every "
        f"{study.record_every}; {study.network.kind} network, weights kept: {study.keep}"
    ]
    for spec in study.data:
        each = "each domain" if spec.places is None else f"each of {spec.places} places a domain"
        held_out = ", ".join("+".join(names) for names in spec.held_out or [(each,)])
        lines.append(f"  {spec.name} ({spec.role}), held out: {held_out}")
    lines.append(f"  algorithms: {', '.join(study.algorithms)}")
    numbers = ", ".join(map(str, study.hparams_seeds))
    lines.append(
        f"  draws {numbers} of every algorithm and held-out set, each with its own seeds"
        if study.draws
        else f"  hparams seeds {numbers}; trial seeds {', '.join(map(str, study.trial_seeds))}"
    )
    if study.split_by != "examples":
        lines.append(f"  validation by {SPLIT_WORDS[study.split_by]}")
    if absent:
        lines.append(f"Held-out names not checked: {', '.join(absent)} not found.")
    try:
        needs = estimate(study, runs, named_roots, workers=workers)
    except InputError as error:
        printing.say(*lines, f"No estimate of time and disk: {error}")
        return
    printing.say(
        *lines,
        f"About {remaining_text(needs.seconds)} with {counted(workers, 'worker')} on this machine "
        f"({remaining_text(needs.seconds_per_run)} a run) and {needs.gigabytes:.2g} GB of disk."
        + f" First {remaining_text(needs.preparing)} for cached features."
        * (needs.preparing > 0),
    )


@command(
    "work",
    examples=["checkwise study run study.toml -o out --plan-only", "checkwise study work out"],
)
@argument("path", metavar="DIR")
@option("--wait", "Stay until other workers are done, to take over their runs.")
@data_option
@plugin_option
@set_option
def work_command(
    path: Path, wait: bool, data: tuple[str, ...], plugin: tuple[str, ...], set: tuple[str, ...]
) -> int:
    """Train the runs of DIR that are not finished and that no other worker trains.

    `checkwise study run` makes DIR. Start as many workers as you like, on any machine that sees it.
    On SIGTERM, SIGUSR1, SIGUSR2 and Ctrl-C a worker saves the state of its run, gives it back, and
    ends with the code 128 plus the signal's number.
    """
    with _asked_to_stop() as asked:
        os.environ.update({name: os.environ.get(name, one) for name, one in ONE_THREAD.items()})
        from checkwise.study.folder import clear_published, open_cohort
        from checkwise.study.sweep import Job, noted_round, work

        plugins = load_plugins(plugin)
        settings = read_settings(set, LIMITS)
        cohort = open_cohort(path)
        round_, noted = noted_round(path)
        job = Job(
            cohort=str(path.absolute()),
            round=round_,
            roots=_places(cohort, noted, data),
            wait=wait,
            plugins={plugin.source: plugin.sha256 for plugin in plugins},
            **settings,
        )
        done = work(job, stop=lambda: bool(asked))
        clear_published(path)
    printing.say(f"{counted(done.trained, 'run')} finished by this worker in {path}.")
    if asked:
        name = signal.Signals(asked[0]).name
        printing.say(f"Stopped by {name}. Any other worker continues where this one stopped.")
        return 128 + asked[0]
    if done.failed:
        printing.say(
            f"{counted(done.failed, 'run')} failed {counted(job.retries + 1, 'time')} and will "
            f"not be tried again: `checkwise study status {path}` says why. `checkwise study run` "
            "tries them again, or lets workers do so with --plan-only."
        )
        return 1
    return 0


def _places(
    cohort: CohortRecord, noted: Mapping[str, str], options: tuple[str, ...]
) -> dict[str, str]:
    """Where the data are: as options say, as noted if that place is here, as the study says."""
    from checkwise.study.sweep import Study, all_roots, read_roots

    here = {name: place for name, place in noted.items() if Path(place).exists()}
    return all_roots(Study.from_dict(cohort.study), {**here, **read_roots(options)})


@contextmanager
def _asked_to_stop() -> Iterator[list[int]]:
    """A list to which every signal that asks this process to stop is added."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked  # only the main thread may handle signals
        return
    before = {
        number: signal.signal(number, lambda number, _: asked.append(number)) for number in STOPPING
    }
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
