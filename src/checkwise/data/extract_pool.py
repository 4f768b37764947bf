"""Runs an extractor here, or by name in child processes with one thread each.

On a CPU, single-threaded processes are several times faster than one process with many threads.
Children are plain subprocesses rather than ``multiprocessing`` ones: their environment has to be
set before they start, and a caller's script need not be importable.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType
from typing import Any, Self

from numpy.typing import NDArray

from checkwise.data.array_pipe import receive_array, send, send_array
from checkwise.data.child_environment import ONE_THREAD
from checkwise.errors import InputError

Extract = Callable[[NDArray[Any]], NDArray[Any]]


@contextmanager
def extraction(extract: Extract | str, workers: int | None) -> Iterator[tuple[Extract, int]]:
    """Yield a function from batch to features, and how many threads may call it at once."""
    if not isinstance(extract, str):
        yield extract, 1
        return
    module, _, function = extract.partition(":")
    if not module or not function:
        raise InputError(
            f"Expected an extractor named 'module:function', but got {extract!r}: "
            "name a function that can be imported, or pass the function itself."
        )
    count = workers or os.cpu_count() or 1
    with ExitStack() as stack:
        idle: queue.SimpleQueue[_Child] = queue.SimpleQueue()
        for _ in range(count):
            idle.put(stack.enter_context(_Child(extract)))

        def run(examples: NDArray[Any]) -> NDArray[Any]:
            child = idle.get()
            try:
                return child.extract(examples)
            finally:
                idle.put(child)

        yield run, count


class _Child:
    """One child process; used by one thread at a time."""

    def __init__(self, extract: str) -> None:
        self._extract = extract

    def __enter__(self) -> Self:
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "checkwise.data.extract_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, **ONE_THREAD},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        send(self._to, json.dumps({"extract": self._extract, "path": sys.path}).encode())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._from.close()
        with suppress(BrokenPipeError):  # a batch the dead child never read
            self._to.close()
        self._log.close()

    def extract(self, examples: NDArray[Any]) -> NDArray[Any]:
        """Send a batch and wait for its features."""
        try:
            send_array(self._to, examples)
            return receive_array(self._from)
        except (OSError, EOFError) as error:
            raise self._failure() from error

    def _failure(self) -> InputError:
        code = self._process.wait(timeout=60)
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines() or ["no message"]
        return InputError(
            f"Expected features from the extractor, but got: {lines[-1]} (exit code {code}) in "
            f"{self._extract!r}: call it on one batch here to see it fail."
        )
