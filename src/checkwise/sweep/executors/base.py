"""What an executor does: start workers, count those alive, stop them."""

from __future__ import annotations

from typing import Protocol

from checkwise.sweep.worker import Job


class Workers(Protocol):
    """Workers that were launched together; each calls ``checkwise.sweep.worker.work(job)``.

    They share nothing but the cohort's folder. Leases keep two of them from training one run, so an
    executor may start too many, start them late, or lose some.
    """

    def alive(self) -> int:
        """How many are still working or waiting to be started."""

    def stop(self) -> None:
        """Ask all of them to save their state and end; return when they have."""

    def failures(self) -> list[str]:
        """After ``stop``: one line for each worker that ended with an error."""


class Executor(Protocol):
    """Starts workers somewhere."""

    def launch(self, job: Job, workers: int) -> Workers:
        """Start ``workers`` processes, each with one thread, that call ``work(job)``."""
