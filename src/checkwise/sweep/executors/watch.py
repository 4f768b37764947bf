"""Starts workers, waits for them, and stops them when it is interrupted."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from checkwise.predict.stopping import stopped_by, terminated_like_interrupted
from checkwise.sweep.executors.base import Executor, JobLike
from checkwise.sweep.status import pause_after

POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Ended:
    """How workers ended: one line for each that failed, and the signal that stopped them, or 0."""

    failures: tuple[str, ...]
    interrupted: int


def run_workers(
    executor: Executor, job: JobLike, workers: int, *, watch: Callable[[], None] = lambda: None
) -> Ended:
    """Work on a job; ``watch`` is called about twice a second, less often where it takes long.

    SIGINT and SIGTERM ask the workers to save their state and end.
    """
    interrupted = 0
    launched = executor.launch(job, workers)
    try:
        with terminated_like_interrupted():
            while launched.alive():
                began = time.monotonic()
                watch()
                time.sleep(pause_after(time.monotonic() - began, POLL_SECONDS))
    except KeyboardInterrupt as stop:
        interrupted = stopped_by(stop)
    finally:
        launched.stop()
    return Ended(tuple(launched.failures()), interrupted)
