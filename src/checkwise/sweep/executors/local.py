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

from checkwise.sweep.executors.base import JobLike, Workers
from checkwise.threads import ONE_THREAD

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
        self._failures: list[str] = []
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

    def stop(self) -> None:
        for process, _ in self._workers:
            with suppress(ProcessLookupError):
                process.terminate()
        end = time.monotonic() + PATIENCE_SECONDS
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
                self._failures.append(lines[-1] if lines else reason)
        self._workers = []

    def failures(self) -> list[str]:
        return self._failures


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
