"""Workers as processes on this machine, with one thread each."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Final

from checkwise.errors import InputError
from checkwise.predict import ONE_THREAD, Child
from checkwise.study.sweep.launching import TAKES, Executor, ExecutorSettings, JobLike, Workers
from checkwise.study.sweep.ray import RayExecutor
from checkwise.study.sweep.slurm import SlurmExecutor

PATIENCE_SECONDS = 120.0


class LocalExecutor:
    """Starts plain subprocesses: their environment is set before they start."""

    def launch(self, job: JobLike, workers: int) -> Workers:
        return _Processes(job, workers)


class _Processes:
    def __init__(self, job: Any, workers: int) -> None:
        self._words = ["-m", type(job).__module__, json.dumps(asdict(job))]
        self._workers = [self._start() for _ in range(workers)]
        self._spare = workers * (1 + getattr(job, "retries", 0))

    def _start(self) -> Child:
        # Ctrl-C reaches the parent alone, which then asks each worker to stop.
        environment = {**os.environ, **ONE_THREAD}
        nowhere = subprocess.DEVNULL
        return Child(*self._words, env=environment, stdout=nowhere, start_new_session=True)

    def alive(self) -> int:
        """How many work; one that was killed, perhaps by its run, is replaced."""
        for place, worker in enumerate(self._workers):
            if self._spare and (worker.process.poll() or 0) < 0:
                self._spare -= 1
                worker.close()
                self._workers[place] = self._start()
        return sum(worker.process.poll() is None for worker in self._workers)

    def stop(self) -> list[str]:
        for worker in self._workers:
            with suppress(ProcessLookupError):
                worker.process.terminate()
        end = time.monotonic() + PATIENCE_SECONDS
        failures = []
        for worker in self._workers:
            try:
                code = worker.process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.process.kill()
                code = worker.process.wait()
            if code:
                reason = f"A worker ended with exit code {code}."
                failures.append(worker.last_line() or reason)
            worker.close()
        self._workers = []
        return failures


EXECUTORS: Final[dict[str, Callable[[ExecutorSettings], Executor]]] = {
    "local": lambda settings: LocalExecutor(),
    "slurm": SlurmExecutor,
    "ray": RayExecutor,
}


def get_executor(settings: ExecutorSettings) -> Executor:
    if settings.kind not in TAKES:
        raise InputError(
            f"Expected an executor among {', '.join(TAKES)}, but got {settings.kind!r}: choose "
            "one.",
            code="unknown",
        )
    takes = ("workers", *TAKES[settings.kind])
    for name, value in vars(settings).items():
        if value is not None and name not in ("kind", *takes):
            raise InputError(
                f"Expected settings that the executor {settings.kind} takes ({', '.join(takes)}), "
                f"but got `{name}`: leave it out, or choose another --executor.",
                code="unsupported",
            )
    worker_count(settings)
    return EXECUTORS[settings.kind](settings)


def worker_count(settings: ExecutorSettings) -> int:
    if settings.workers is None and settings.kind == "slurm":
        raise InputError(
            "Expected --workers N with --executor slurm, but got none: say how many jobs to "
            "submit.",
            code="missing",
        )
    return settings.workers or os.cpu_count() or 1
