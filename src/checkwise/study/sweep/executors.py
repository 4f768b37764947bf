"""Workers as processes on this machine, with one thread each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict
from typing import IO, Any

from checkwise.errors import InputError
from checkwise.predict import ONE_THREAD
from checkwise.study.sweep.launching import (
    TAKES,
    Executor,
    ExecutorSettings,
    JobLike,
    Workers,
)
from checkwise.study.sweep.ray import RayExecutor
from checkwise.study.sweep.slurm import SlurmExecutor

PATIENCE_SECONDS = 120.0


class LocalExecutor:
    """Starts plain subprocesses: their environment is set before they start."""

    def launch(self, job: JobLike, workers: int) -> Workers:
        """Start the processes."""
        return _Processes(job, workers)


class _Processes:
    def __init__(self, job: Any, workers: int) -> None:
        self._command = [sys.executable, "-m", type(job).__module__, json.dumps(asdict(job))]
        self._workers = [_start(self._command) for _ in range(workers)]
        self._spare = workers * (1 + getattr(job, "retries", 0))

    def alive(self) -> int:
        """How many work; one that was killed, perhaps by its run, is replaced."""
        for place, (process, log) in enumerate(self._workers):
            if self._spare and (process.poll() or 0) < 0:
                self._spare -= 1
                assert process.stdin is not None
                process.stdin.close()
                log.close()
                self._workers[place] = _start(self._command)
        return sum(process.poll() is None for process, _ in self._workers)

    def stop(self) -> list[str]:
        for process, _ in self._workers:
            with suppress(ProcessLookupError):
                process.terminate()
        end = time.monotonic() + PATIENCE_SECONDS
        failures = []
        for process, log in self._workers:
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            assert process.stdin is not None
            process.stdin.close()
            with log:
                log.seek(0)
                lines = log.read().decode(errors="replace").strip().splitlines()
            if process.returncode:
                reason = f"A worker ended with exit code {process.returncode}."
                failures.append(lines[-1] if lines else reason)
        self._workers = []
        return failures


def _start(command: list[str]) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    log = tempfile.TemporaryFile()  # noqa: SIM115  (closed by stop)
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=log,
        env={**os.environ, **ONE_THREAD},
        # Ctrl-C reaches the parent alone, which then asks each worker to stop.
        start_new_session=True,
    )
    return process, log


def get_executor(settings: ExecutorSettings) -> Executor:
    """The executor that the settings name; settings that it does not take are refused."""
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
                f"but got `{name}` (--{name}): leave it out, or choose another --executor.",
                code="unsupported",
            )
    worker_count(settings)
    if settings.kind == "slurm":
        return SlurmExecutor(settings)
    return RayExecutor(settings) if settings.kind == "ray" else LocalExecutor()


def worker_count(settings: ExecutorSettings) -> int:
    """How many workers to start: those asked for, or one for every core of this machine."""
    if settings.workers is None and settings.kind == "slurm":
        raise InputError(
            "Expected --workers N with --executor slurm, but got none: say how many jobs to "
            "submit.",
            code="missing",
        )
    return settings.workers or os.cpu_count() or 1
