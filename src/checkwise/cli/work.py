"""``checkwise study work``: one worker on a planned study, started by anything."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from checkwise.cli import printing
from checkwise.cli.command import argument, command, option, takes
from checkwise.cli.options import data_option, load_plugins, plugin_option
from checkwise.cli.workers import Working
from checkwise.predict import ONE_THREAD
from checkwise.words import counted

if TYPE_CHECKING:
    from checkwise.study.folder import CohortRecord

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


@command(
    "work",
    examples=["checkwise study run study.toml -o out --plan-only", "checkwise study work out"],
)
@argument("path", metavar="DIR")
@option("--wait", "Stay until other workers are done, to take over their runs.")
@data_option
@plugin_option
@takes(Working, "working")
def work_command(
    path: Path, wait: bool, data: tuple[str, ...], plugin: tuple[str, ...], working: Working
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
        cohort = open_cohort(path)
        round_, noted = noted_round(path)
        job = Job(
            cohort=str(path.absolute()),
            round=round_,
            roots=_places(cohort, noted, data),
            wait=wait,
            plugins={plugin.source: plugin.sha256 for plugin in plugins},
            resume_seconds=working.resume_seconds,
            takeover=working.takeover,
            retries=working.retries,
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
            f"{counted(done.failed, 'run')} failed {counted(working.retries + 1, 'time')} and will "
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
