"""Starts workers, waits for them, and stops them when it is interrupted."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from checkwise.sweep.executors.base import Executor, JobLike
from checkwise.sweep.status import pause_after

POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Ended:
    """How workers ended: one line for each that failed, and whether they were interrupted."""

    failures: tuple[str, ...]
    interrupted: bool


def run_workers(
    executor: Executor, job: JobLike, workers: int, *, watch: Callable[[], None] = lambda: None
) -> Ended:
    """Work on a job; ``watch`` is called about twice a second, less often where it takes long.

    SIGINT and SIGTERM ask the workers to save their state and end.
    """
    interrupted = False
    launched = executor.launch(job, workers)
    try:
        with _terminated_like_interrupted():
            while launched.alive():
                began = time.monotonic()
                watch()
                time.sleep(pause_after(time.monotonic() - began, POLL_SECONDS))
    except KeyboardInterrupt:
        interrupted = True
    finally:
        launched.stop()
    return Ended(tuple(launched.failures()), interrupted)


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
