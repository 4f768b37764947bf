"""Where workers run, by name: a new executor is a file, a line in ``EXECUTORS`` and a test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from checkwise.errors import InputError
from checkwise.sweep.executors.base import Executor, Workers
from checkwise.sweep.executors.local import LocalExecutor

EXECUTORS: Final[dict[str, Callable[[], Executor]]] = {"local": LocalExecutor}

__all__ = ["EXECUTORS", "Executor", "Workers", "get_executor"]


def get_executor(name: str) -> Executor:
    """The executor ``name``."""
    if name not in EXECUTORS:
        raise InputError(
            f"Expected an executor among {', '.join(EXECUTORS)}, but got {name!r}: choose one."
        )
    return EXECUTORS[name]()
