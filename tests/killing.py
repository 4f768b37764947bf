"""Children that are killed: by others, or by themselves at a chosen operation on files."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import Any


def die_at(number: int, operations: Iterable[str]) -> None:
    """Let this process be killed just before its ``number``-th of these operations of ``os``."""
    left = [number]

    def counted(operation: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return operation(*args, **options)

        return call

    for name in operations:
        setattr(os, name, counted(getattr(os, name)))


def in_child(work: Callable[[], object]) -> int:
    """Start ``work`` in a fork; its process id. An error is shown, and ends it with 1."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return pid


def has_ended(pid: int) -> bool:
    """Whether a child has ended, without waiting for it."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def was_killed(pid: int) -> bool:
    """Wait for a child: it was killed, or it did its work. Another end is an error."""
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, -signal.SIGKILL), f"the child ended with {code}"
    return code != 0
