"""``checkwise work``: one worker on a planned cohort, started by anything."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from checkwise.cli import printing
from checkwise.cli.options import Data, Plugins, ResumeSeconds, Retries, Takeover, load_plugins
from checkwise.store.failures import RETRIES
from checkwise.store.lease import STALE_SECONDS
from checkwise.text import counted
from checkwise.threads import ONE_THREAD

if TYPE_CHECKING:
    from checkwise.store.cohort import CohortRecord

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


def command(
    path: Annotated[
        Path, typer.Argument(metavar="COHORT", help="A folder that `plan` or `sweep` has written.")
    ],
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Stay until other workers are done, to take over their runs."),
    ] = False,
    data: Data = None,
    resume_seconds: ResumeSeconds = 20.0,
    takeover: Takeover = STALE_SECONDS,
    retries: Retries = RETRIES,
    plugin: Plugins = None,
) -> int:
    """Train the runs of COHORT that are not finished and that no other worker trains.

    Start as many as you like, on any machine that sees the folder. On SIGTERM, SIGUSR1, SIGUSR2 and
    Ctrl-C a worker saves the state of its run, gives it back, and ends with the code 128 plus the
    signal's number.
    """
    with _asked_to_stop() as asked:
        os.environ.update({name: os.environ.get(name, one) for name, one in ONE_THREAD.items()})
        from checkwise.store.attempts import clear_published
        from checkwise.store.cohort import open_cohort
        from checkwise.sweep.plan import noted_round
        from checkwise.sweep.worker import Job, work

        plugins = load_plugins(plugin)
        cohort = open_cohort(path)
        round_, noted = noted_round(path)
        job = Job(
            cohort=str(path.absolute()),
            round=round_,
            roots=_places(cohort, noted, data),
            resume_seconds=resume_seconds,
            wait=wait,
            plugins={plugin.source: plugin.sha256 for plugin in plugins},
            takeover=takeover,
            retries=retries,
        )
        done = work(job, stop=lambda: bool(asked))
        clear_published(path)
    out = printing.console()
    out.print(f"{counted(done.trained, 'run')} finished by this worker in {path}.")
    if asked:
        name = signal.Signals(asked[0]).name
        out.print(f"Stopped by {name}. Any other worker continues where this one stopped.")
        return 128 + asked[0]
    if done.failed:
        out.print(
            f"{counted(done.failed, 'run')} failed {counted(retries + 1, 'time')} and will not be "
            f"tried again: `checkwise status {path}` says why. Plan the study again to retry."
        )
        return 1
    return 0


def _places(
    cohort: CohortRecord, noted: Mapping[str, str], options: list[str] | None
) -> dict[str, str]:
    """Where the data are: as options say, as noted if that place is here, as the study says."""
    from checkwise.sweep.datasets import all_roots, read_roots
    from checkwise.sweep.study import Study

    here = {name: place for name, place in noted.items() if Path(place).exists()}
    return all_roots(Study.from_dict(cohort.study), {**here, **read_roots(options or ())})


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
