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
LN2 = 0.6931471805599453
ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it leaves the nearest integer in the low bits


def compiled(*flags: str) -> Callable[[Function], Function]:
    """`numba.njit` with an on-disk cache, no GIL, and the given floating-point liberties."""

    def decorate(function: Function) -> Function:
        jit = numba.njit(cache=True, nogil=True, fastmath=set(flags), error_model="numpy")
        return cast(Function, jit(function))

    return decorate


@compiled("contract")
def exponential(x: float) -> float:
    """exp(x) for x <= 0, and 0 where that is below 1e-30; NaN stays NaN.

    x = k ln 2 + r with |r| <= ln 2 / 2, then a polynomial of degree 7 whose quotient
    (s - 1) / r interpolates (exp(r) - 1) / r at Chebyshev points: relative error below 1.2e-10,
    exactly 1 at 0. 2**k is multiplied in, not added to the exponent bits: NaN stays NaN.
    """
    x = -80.0 if x < -80.0 else x
    shifted = x * LOG2_E + ROUND
    k = shifted - ROUND
    r = x - k * LN2
    s = 0.000198992860970568
    s = s * r + 0.0013941118899499568
    s = s * r + 0.008333298468885862
    s = s * r + 0.04166635277105741
    s = s * r + 0.1666666671903285
    s = s * r + 0.5000000047146076
    s = s * r + 0.9999999999999999
    s = s * r + 1.0
    s = s * float_from_bits((bits_from_float(shifted) + 1023) << 52)
    return 0.0 if s < TINY else s


@compiled("contract")
def exponentials(x: Array, shift: float, out: Array) -> None:
    """out <- exp(x - shift) for a row x whose maximum is `shift`."""
    for i in range(x.size):
        out[i] = exponential(np.float64(x[i]) - shift)


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
