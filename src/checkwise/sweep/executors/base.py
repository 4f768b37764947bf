"""What an executor does: start workers, count those alive, stop them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Protocol


class JobLike(Protocol):
    """What every worker has to know: a frozen dataclass of plain values that JSON can carry.

    The module that defines its class has a function ``work(job, *, stop)``, and takes the job as
    JSON when it is run with ``python -m``.
    """

    @property
    def cohort(self) -> str:
        """The folder that launcher and workers share."""


class Workers(Protocol):
    """Workers that were launched together; each calls ``work(job, stop=…)`` of the job's module.

    They share nothing but the cohort's folder. Leases keep two of them from doing the same work, so
    an executor may start too many, start them late, or lose some.
    """

    def alive(self) -> int:
        """How many are still working or waiting to be started."""

    def stop(self) -> None:
        """Ask all of them to save their state and end; return when they have."""

    def failures(self) -> list[str]:
        """After ``stop``: one line for each worker that ended with an error."""


class Executor(Protocol):
    """Starts workers somewhere."""

    def launch(self, job: JobLike, workers: int) -> Workers:
        """Start ``workers`` processes, each with one thread, that work on ``job``."""


def work_of(job: JobLike) -> Callable[..., None]:
    """The function that does a job."""
    function: Callable[..., None] = import_module(type(job).__module__).work
    return function
