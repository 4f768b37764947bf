"""Where workers run, by name: a new executor is a file, an entry in ``EXECUTORS`` and a test."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final

from checkwise.errors import InputError
from checkwise.sweep.executors.base import Executor, JobLike, Workers
from checkwise.sweep.executors.local import LocalExecutor
from checkwise.sweep.executors.ray import RayExecutor
from checkwise.sweep.executors.settings import ExecutorSettings
from checkwise.sweep.executors.slurm import SlurmExecutor

__all__ = [
    "EXECUTORS",
    "Executor",
    "ExecutorSettings",
    "JobLike",
    "Workers",
    "get_executor",
    "worker_count",
]


@dataclass(frozen=True)
class ExecutorKind:
    """How an executor is made, which settings it takes, and if it chooses how many workers."""

    make: Callable[[ExecutorSettings], Executor]
    takes: tuple[str, ...] = ()
    counts: bool = True


EXECUTORS: Final[dict[str, ExecutorKind]] = {
    "local": ExecutorKind(lambda settings: LocalExecutor()),
    "slurm": ExecutorKind(
        SlurmExecutor, ("partition", "time", "memory", "cpus", "gpus"), counts=False
    ),
    "ray": ExecutorKind(RayExecutor, ("memory", "cpus", "gpus", "address")),
}


def get_executor(settings: ExecutorSettings) -> Executor:
    """The executor that the settings name; settings that it does not take are refused."""
    kind = _kind(settings)
    for field in fields(settings):
        named = field.name in ("kind", "workers", *kind.takes)
        if not named and getattr(settings, field.name) is not None:
            raise InputError(
                f"Expected settings that the executor {settings.kind} takes "
                f"({', '.join(('workers', *kind.takes))}), but got `{field.name}` "
                f"(--{field.name}): leave it out, or choose another --executor.",
                code="unsupported",
            )
    worker_count(settings)
    return kind.make(settings)


def worker_count(settings: ExecutorSettings) -> int:
    """How many workers to start: those asked for, or one for every core of this machine."""
    if settings.workers is not None:
        return settings.workers
    if not _kind(settings).counts:
        raise InputError(
            f"Expected --workers N with --executor {settings.kind}, but got none: say how many "
            "jobs to submit.",
            code="missing",
        )
    return os.cpu_count() or 1


def _kind(settings: ExecutorSettings) -> ExecutorKind:
    if settings.kind not in EXECUTORS:
        raise InputError(
            f"Expected an executor among {', '.join(EXECUTORS)}, but got {settings.kind!r}: "
            "choose one.",
            code="unknown",
        )
    return EXECUTORS[settings.kind]
