"""Two processes that meet by gloo, forked: what takes seconds to import is imported once.

Fork from a program of its own: threads of a process that has computed do not survive.
"""

from __future__ import annotations

import os
import socket
import sys
import traceback
from collections.abc import Callable


def in_two(work: Callable[[], object]) -> None:
    """Do the same in both, under the names by which torch tells them apart, and wait for them."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    sys.stdout.flush()
    children = []
    for rank in ("0", "1"):
        child = os.fork()
        if child == 0:
            os.environ |= {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2"}
            os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            try:
                work()
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            sys.stdout.flush()
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
