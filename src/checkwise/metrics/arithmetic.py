"""How functions are compiled, and sums and maxima of a row.

Functions differ in the liberties the compiler may take with floating point. Only plain sums may
be reordered: in an exponential that would cancel the digits that matter for huge logits.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from importlib.resources import files
from typing import Any, TypeVar, cast

import numba
import numpy as np

from checkwise.metrics.lanes import largest_8, largest_32

Function = TypeVar("Function", bound=Callable[..., Any])
Array = np.ndarray[Any, np.dtype[Any]]

TINY = 1e-30  # smaller probabilities are set to 0: denormal powers of them are slow


def _stamp() -> str:
    """What the compiled code depends on: the text of every module of this package."""
    modules = [file for file in files(__package__).iterdir() if file.name.endswith(".py")]
    texts = (file.read_bytes() for file in sorted(modules, key=lambda file: file.name))
    return sha256(b"".join(texts)).hexdigest()


_STAMP = _stamp()


def compiled(*flags: str) -> Callable[[Function], Function]:
    """`numba.njit` with an on-disk cache, no GIL, and the given floating-point liberties."""

    def decorate(function: Function) -> Function:
        # Nothing here allocates, so nothing needs the reference counts that `_nrt` keeps: they are
        # atomic operations, several for every slice of a row.
        njit: Any = numba.njit
        dispatcher = njit(
            cache=True, nogil=True, fastmath=set(flags), error_model="numpy", _nrt=False
        )(function)
        # numba would look at the function's own file only and miss a change in what it calls.
        if hasattr(dispatcher._cache, "_cache_file"):
            dispatcher._cache._cache_file._source_stamp = _STAMP
        return cast(Function, dispatcher)

    return decorate


@compiled("reassoc")
def total(x: Array) -> float:
    """Sum of a flat array, in any order."""
    s = 0.0
    for i in range(x.size):
        s += x[i]
    return s


@compiled("reassoc", "contract")
def total_squared(x: Array) -> float:
    """Sum of squares of a flat array, in any order."""
    s = 0.0
    for i in range(x.size):
        s += x[i] * x[i]
    return s


@compiled()
def largest(x: Array) -> float:
    """Maximum of a row, overlooking NaN: the caller finds that in the row's sum."""
    if x.size >= 32:
        return float(largest_32(x))
    if x.size >= 8:
        return float(largest_8(x))
    m = x[0]
    for v in x:
        m = v if v > m else m
    return float(m)
