"""Kill this process at a chosen operation on files."""

from __future__ import annotations

import os
import signal
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
