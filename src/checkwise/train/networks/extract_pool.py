"""A frozen backbone in child processes with one thread each.

On a CPU, single-threaded processes are several times faster than one process with many threads.
Children are plain subprocesses rather than ``multiprocessing`` ones: their environment has to be
set before they start, and a caller's script need not be importable.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from queue import SimpleQueue
from threading import Lock
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from checkwise.data.feature_cache import Extract
from checkwise.errors import InputError
from checkwise.threads import ONE_THREAD
from checkwise.train.config import Tune


@contextmanager
def child_processes(backbone: str, tune: Tune, *, count: int) -> Iterator[Extract]:
    """Yield a function from images to features that ``count`` threads may call at once.

    The children start with the first batch and end with the context.
    """
    children: list[_Child] = []
    idle: SimpleQueue[_Child] = SimpleQueue()
    starting = Lock()

    def start() -> None:
        with starting:
            while len(children) < count:
                children.append(_Child(backbone, tune))
                idle.put(children[-1])

    def extract(images: NDArray[Any]) -> NDArray[Any]:
        start()
        child = idle.get()
        try:
            return child.extract(images)
        finally:
            idle.put(child)

    try:
        yield extract
    finally:
        for child in children:
            child.stop()


class _Child:
    """One child process; used by one thread at a time."""

    def __init__(self, backbone: str, tune: Tune) -> None:
        self._backbone = backbone
        with ExitStack() as stack:  # where the process cannot start, the log is closed
            self._log = stack.enter_context(tempfile.TemporaryFile())
            self._process = subprocess.Popen(
                [sys.executable, "-m", "checkwise.train.networks.extract_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env={**os.environ, **ONE_THREAD},
            )
            stack.pop_all()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        job = {"backbone": backbone, "tune": tune, "path": sys.path}
        with suppress(BrokenPipeError):  # the first batch reports why the child ended
            send(self._to, json.dumps(job).encode())

    def extract(self, images: NDArray[Any]) -> NDArray[Any]:
        """Send a batch and wait for its features."""
        try:
            send_array(self._to, images)
            return receive_array(self._from)
        except (OSError, EOFError) as error:
            raise self._failure() from error

    def stop(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._process.wait()
        self._from.close()
        with suppress(BrokenPipeError):  # a batch that the dead child never read
            self._to.close()
        self._log.close()

    def _failure(self) -> InputError:
        code = self._process.wait(timeout=60)
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines() or ["no message"]
        return InputError(
            f"Expected features from the backbone {self._backbone!r}, but its process ended with: "
            f"{lines[-1]} (exit code {code}): build the backbone in Python to see it fail, with "
            f"checkwise.train.networks.build_backbone({self._backbone!r}).",
            code="system",
        )


def send(pipe: IO[bytes], content: bytes) -> None:
    """Write one message: its length, then its bytes."""
    pipe.write(struct.pack("<Q", len(content)))
    pipe.write(content)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes:
    """Read one message; EOFError if the other process has ended."""
    (length,) = struct.unpack("<Q", _exactly(pipe, 8))
    return _exactly(pipe, length)


def send_array(pipe: IO[bytes], array: NDArray[Any]) -> None:
    """Write an array as two messages: type and shape, then the values."""
    send(pipe, json.dumps({"dtype": array.dtype.str, "shape": array.shape}).encode())
    send(pipe, np.ascontiguousarray(array).tobytes())


def receive_array(pipe: IO[bytes]) -> NDArray[Any]:
    """Read an array, writable."""
    header = json.loads(receive(pipe))
    content = bytearray(receive(pipe))
    return np.frombuffer(content, dtype=np.dtype(header["dtype"])).reshape(header["shape"])


def _exactly(pipe: IO[bytes], length: int) -> bytes:
    content = pipe.read(length)
    if len(content) < length:
        raise EOFError(f"{len(content)} of {length} bytes came")
    return content
