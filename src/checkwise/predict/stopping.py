"""SIGTERM stops a command as Ctrl-C does, and the command knows which of the two it was."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


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
