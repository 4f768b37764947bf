"""How numba compiles the kernel: what is kept on disk, and which liberties it may take."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def inner(*liberties: str) -> Callable[[Function], Function]:
    """Compiled into its callers, with the given floating-point liberties."""
    return cast(
        Callable[[Function], Function], numba.njit(error_model="numpy", fastmath=set(liberties))
    )


def entry(function: Function) -> Function:
    """Compiled, kept on disk for other processes, and run without Python's lock."""
    try:
        compiled = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # no folder to keep it in: every process compiles
        return cast(Function, numba.njit(nogil=True, error_model="numpy")(function))

    @wraps(function)
    def run(*arguments: Any) -> Any:
        try:
            return compiled(*arguments)
        except OSError:  # compiled, but the disk is full; nothing has run yet
            return compiled(*arguments)

    return cast(Function, run)
