"""Processes: those of our own, which signal stopped one, an environment for one thread."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from io import BytesIO
from typing import Any, Final


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """In this block SIGTERM raises KeyboardInterrupt; :func:`stopped_by` tells them apart."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals
        return

    def stop(number: int, _: object) -> None:
        raise KeyboardInterrupt(number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def stopped_by(stop: KeyboardInterrupt) -> int:
    """The number of the signal: a command ends with 128 + n."""
    return stop.args[0] if stop.args else signal.SIGINT


ONE_THREAD: Final = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    # By default malloc returns large blocks to the system and faults their pages in again.
    "MALLOC_TRIM_THRESHOLD_": str(2**33),
    "MALLOC_MMAP_THRESHOLD_": str(2**33),
    "MALLOC_TOP_PAD_": str(2**26),
}


class Child:
    """A Python process with pipes to it and from it, and a log of what it says on stderr."""

    def __init__(
        self, *words: str, env: Mapping[str, str], stdout: int = subprocess.PIPE, **options: Any
    ) -> None:
        with ExitStack() as stack:  # where the process cannot start, the log is closed
            self._log = stack.enter_context(tempfile.TemporaryFile())
            self.process = subprocess.Popen(
                [sys.executable, *words],
                stdin=subprocess.PIPE,
                stdout=stdout,
                stderr=self._log,
                env=env,
                **options,
            )
            stack.pop_all()
        assert self.process.stdin is not None
        self.to = self.process.stdin
        self.replies = self.process.stdout or BytesIO()

    def last_line(self) -> str:
        """What it said last; "" if nothing."""
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def close(self) -> None:
        """Wait for its end, and let go of it."""
        self.process.wait()
        with suppress(OSError):  # what it never read
            self.to.close()
        self.replies.close()
        self._log.close()
