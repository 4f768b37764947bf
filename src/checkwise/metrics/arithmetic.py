"""Compiled building blocks that LLVM turns into vector code without help from a maths library.

Everything is float64. The functions differ only in the liberties the compiler may take: the
exponential may fuse a multiplication with an addition and nothing else, because reordering its
range reduction would cancel the digits that matter for huge logits; the sums may be reordered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

from checkwise.metrics.lanes import bits_from_float, float_from_bits, largest_8, largest_32

Function = TypeVar("Function", bound=Callable[..., Any])
Array = np.ndarray[Any, np.dtype[Any]]

TINY = 1e-30  # smaller values are set to 0: they cannot reach the 1e-8 clamp, denormals cost 3x
LOG2_E = 1.4426950408889634
LN2_HIGH = 6.93147180369123816490e-01  # 20 trailing zero bits, so k * LN2_HIGH is exact
LN2_LOW = 1.90821492927058770002e-10
ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it leaves the nearest integer in the low bits
GRID_BITS = 36  # masses of the hard bins are integers in units of 2**-36, so sums are exact
GRID_SHIFT = 1.5 * 2.0 ** (52 - GRID_BITS)


def compiled(*flags: str) -> Callable[[Function], Function]:
    """`numba.njit` with an on-disk cache, no GIL, and the given floating-point liberties."""

    def decorate(function: Function) -> Function:
        jit = numba.njit(cache=True, nogil=True, fastmath=set(flags), error_model="numpy")
        return cast(Function, jit(function))

    return decorate


@compiled("contract")
def exponentiate(x: Array) -> None:
    """x <- exp(x) in place for a flat array of values at most 0; below 1e-30 the result is 0.

    x = k ln 2 + r with |r| <= ln 2 / 2, then a Taylor polynomial of degree 12 (the next term is
    below 2e-16 exp(r)). NaN stays NaN: 2**k is a factor, never added to the exponent bits.
    """
    for i in range(x.size):
        v = -80.0 if x[i] < -80.0 else x[i]
        shifted = v * LOG2_E + ROUND
        k = shifted - ROUND
        r = v - k * LN2_HIGH
        r = r - k * LN2_LOW
        s = 2.08767569878680989792e-9 * r + 2.50521083854417187751e-8
        s = s * r + 2.75573192239858906526e-7
        s = s * r + 2.75573192239858906526e-6
        s = s * r + 2.48015873015873015873e-5
        s = s * r + 1.98412698412698412698e-4
        s = s * r + 1.38888888888888888889e-3
        s = s * r + 8.33333333333333333333e-3
        s = s * r + 4.16666666666666666667e-2
        s = s * r + 1.66666666666666666667e-1
        s = s * r + 0.5
        s = s * r + 1.0
        s = s * r + 1.0
        s = s * float_from_bits((bits_from_float(shifted) + 1023) << 52)
        x[i] = 0.0 if s < TINY else s


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
        return float(largest_32(x, x.size))
    if x.size >= 8:
        return float(largest_8(x, x.size))
    m = x[0]
    for v in x:
        m = v if v > m else m
    return float(m)
