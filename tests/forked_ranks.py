"""Two processes that meet by gloo, forked: what takes seconds to import is imported once.

They end without a teardown: gloo's aborts some processes that have done their work. Fork from a
program of its own: threads of a process that has computed do not survive.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import socket
from collections.abc import Callable
from functools import partial
from threading import BrokenBarrierError

from tests.killing import in_child, was_killed


def in_two(work: Callable[[], object]) -> None:
    """Do the same in both, under the names by which torch tells them apart, and wait for them."""
    port, together = _free_port(), multiprocessing.get_context("fork").Barrier(2)

    def as_rank(rank: str) -> None:
        os.environ |= {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2"}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        try:
            work()
        except BaseException:
            together.abort()
            raise
        # The other may still need what this one holds: its sockets, and the store.
        with contextlib.suppress(BrokenBarrierError):
            together.wait(timeout=60)

    children = [in_child(partial(as_rank, rank)) for rank in ("0", "1")]
    assert [was_killed(child) for child in children] == [False, False]


def _free_port() -> int:
    """One that the system gives nobody unasked, so that it is still free a moment later."""
    for port in itertools.count(20_000 + os.getpid() % 10_000):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError
