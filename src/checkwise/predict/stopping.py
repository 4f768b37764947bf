"""Processes: which signal stopped one, and the environment of one that computes on one thread."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final


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
