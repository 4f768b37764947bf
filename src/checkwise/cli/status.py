"""``checkwise study status``: how far the runs of a study are, and whether its files are whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.live import Live

from checkwise.cli import printing
from checkwise.cli.command import argument, command, option
from checkwise.cli.options import json_option, plugin_option
from checkwise.cli.printing import print_json
from checkwise.cli.progress import MINUTE, counting, remaining_text
from checkwise.errors import InputError
from checkwise.store import COHORT_FILE, RUN_FILE, has_file
from checkwise.words import counted, printable

if TYPE_CHECKING:
    from checkwise.study.folder import CohortRecord, Fault
    from checkwise.study.sweep import RunStatus

WATCH_SECONDS = 2.0
MOST_ROWS = 40
OPEN = ("running", "interrupted", "failed")
NOT_SHOWN = ("key", "seconds", "ended")  # of a run, in JSON


@command(
    "status", examples=["checkwise study status out --watch", "checkwise study status out --verify"]
)
@argument("path", metavar="DIR")
@option("--watch", "Look again until every run is finished or failed.")
@option(
    "--verify",
    "Check every file against its checksum; exit code 1 if something is wrong or missing.",
    name="check",
)
@plugin_option.but(
    help="With --verify: check that runs were trained with this file or module; repeatable."
)
@json_option
def status_command(
    path: Path, watch: bool, check: bool, plugin: tuple[str, ...], as_json: bool
) -> int:
    """Show which runs of DIR are finished, running, interrupted, failed or waiting.

    Also where they run, how fast, how long the rest takes, and why runs failed. With --watch and
    --json every look is one line.
    """
    from checkwise.study.folder import open_cohort
    from checkwise.study.sweep import Watched

    if watch and check:
        raise InputError(
            "Expected --watch or --verify, but got both: verify when the runs are done.",
            code="ambiguous",
        )
    if plugin and not check:
        raise InputError("Expected --verify with --plugin: add it.", code="missing")
    if has_file(path, RUN_FILE):
        raise InputError(
            f"Expected the folder of a study, but {path} is one of its runs: name the folder with "
            f"{COHORT_FILE}.",
            code="unsupported",
        )
    cohort = open_cohort(path)
    faults, notes = _verified(path, plugin) if check else ([], [])
    looks = _looks(Watched(cohort).look, watch=watch)
    if as_json:
        found = {"faults": [asdict(fault) for fault in faults]} if check else {}
        for runs in looks:
            print_json("status", _content(cohort, runs) | found)
    elif watch and printing.console().is_terminal:
        with Live(console=printing.console(), auto_refresh=False) as screen:
            for runs in looks:
                screen.update(Group(*_lines(cohort, runs)), refresh=True)
    else:
        _print(cohort, looks)
        if check:
            said = [f"{fault.run}: {fault.what}: {fault.do}." for fault in faults]
            whole = "Everything is as it was written."
            printing.say(*said, *notes, f"{counted(len(faults), 'fault')}." if faults else whole)
    return 1 if faults else 0


def _verified(path: Path, plugin: Sequence[str]) -> tuple[list[Fault], list[str]]:
    """Faults of the files, and what could not be compared."""
    from checkwise.study.folder import unsigned, verify, verify_plugins

    with counting("verifying") as step:
        faults = verify(path, progress=step)
    changed, notes = verify_plugins(path, plugin)
    return [*faults, *changed], [*unsigned(path), *notes]


def _looks(look: Callable[[], list[RunStatus]], *, watch: bool) -> Iterator[list[RunStatus]]:
    from checkwise.study.sweep import pause_after

    over = 0
    while over < 2:  # a run that failed may be taken again at once
        began = time.monotonic()
        runs = look()
        pause = pause_after(time.monotonic() - began, WATCH_SECONDS)
        yield runs
        ended = all(run.state in ("finished", "failed") for run in runs)
        over = over + 1 if ended else 0
        if not watch or all(run.state == "finished" for run in runs):
            return
        time.sleep(pause)


def _print(cohort: CohortRecord, looks: Iterator[list[RunStatus]]) -> None:
    """Print what the first and the last look show, and once a minute what has changed."""
    shown: list[RunStatus] = []
    last: list[RunStatus] = []
    due = 0.0
    for runs in looks:
        last = runs
        if time.monotonic() >= due and runs != shown:
            printing.say(*_lines(cohort, runs))
            shown, due = runs, time.monotonic() + MINUTE
    if last != shown:
        printing.say(*_lines(cohort, last))


def _content(cohort: CohortRecord, runs: Sequence[RunStatus]) -> dict[str, Any]:
    from checkwise.study.sweep import overview

    return {
        "name": cohort.name,
        "role": cohort.role,
        **asdict(overview(runs)),
        "runs": [
            {"run": run.key.as_dict(), **{n: v for n, v in vars(run).items() if n not in NOT_SHOWN}}
            for run in runs
        ],
    }


def _lines(cohort: CohortRecord, runs: Sequence[RunStatus]) -> list[RenderableType]:
    from checkwise.study.sweep import overview

    facts = overview(runs)
    counts = ", ".join(f"{count} {state}" for state, count in facts.counts.items())
    lines: list[RenderableType] = [f"{cohort.name} ({cohort.role}): {len(runs)} runs, {counts}"]
    if facts.runs_per_hour is not None and facts.remaining_seconds is not None:
        left = remaining_text(facts.remaining_seconds)
        lines.append(f"About {facts.runs_per_hour:.3g} runs an hour, {left} left.")
    if facts.hosts:
        places = ", ".join(f"{counted(n, 'run')} on {host}" for host, n in facts.hosts.items())
        lines.append(f"Running: {places}.")
    lines += [
        f"{run.key} is held by process {run.process} on {run.host}, of which nothing was heard for "
        f"{remaining_text(run.silent)}. Another worker takes it over after the time `takeover`."
        for run in runs
        if run.silent is not None
    ][:MOST_ROWS]
    states = {run.state for run in runs}
    if "running" not in states and states & {"waiting", "interrupted"}:
        lines.append(
            "No worker is at work on the runs that are left: run the study again, which goes on "
            f"where they stopped, or start a worker with `checkwise study work {cohort.path}`."
        )
    safe = [printable(line) if isinstance(line, str) else line for line in lines]
    return [*safe, *_table([run for run in runs if run.state in OPEN])]


def _table(runs: Sequence[RunStatus]) -> list[RenderableType]:
    """Runs that failed first, then those that are being trained."""
    if not runs:
        return []
    ordered = sorted(runs, key=lambda run: OPEN[::-1].index(run.state))
    rows = [
        (str(run.key), run.state, f"{run.records}/{run.planned}", run.host or "", _why(run))
        for run in ordered[:MOST_ROWS]
    ]
    header = ("run", "state", "records", "host", "reason")
    left = ("run", "state", "host", "reason")
    rest = len(ordered) - len(rows)
    more = [f"… and {counted(rest, 'more run')}: --json lists all."] if rest else []
    return [printing.table(header, rows, left=left), *more]


def _why(run: RunStatus) -> str:
    """The reason, and what the log says last if that is something else."""
    reason = run.reason or ""
    if run.log is None or run.last_line is None or run.last_line in reason:
        return reason
    return f"{reason} Its log {run.log} ends with: {run.last_line}"
