"""exp(z - max z) of a row and its sum, in one sweep of vector code.

x = z - m = k ln 2 + r with |r| <= ln 2 / 2, and exp(r) by a polynomial of degree 7: relative error
below 1.2e-10, exactly 1 at x = 0, NaN where x is NaN. Results end at exp(-69) = 1e-30, which is as
good as 0: it cannot reach the 1e-8 clamp, and denormal powers would cost three times as much.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]

from checkwise.metrics.arithmetic import Array, compiled
from checkwise.metrics.lanes import (
    F32,
    F64,
    FUSE,
    I64,
    LANES,
    Memory,
    bits_from_float,
    constant,
    element,
    float_from_bits,
    fold,
    intrinsic,
    loops,
    spread,
    vector,
)

LOWEST = -69.0
LOG2_E = 1.4426950408889634
LN2 = 0.6931471805599453
ROUND = 1.5 * 2.0**52 + 1023  # adding it leaves k + 1023, the exponent of 2**k, in the low bits

# (s - 1) / r interpolates (exp(r) - 1) / r at Chebyshev points; s(0) = 1 exactly.
SERIES = (
    1.0,
    0.9999999999999999,
    0.5000000047146076,
    0.1666666671903285,
    0.04166635277105741,
    0.008333298468885862,
    0.0013941118899499568,
    0.000198992860970568,
)


@compiled("contract")
def exponential(x: float) -> float:
    """exp(x) for x <= 0."""
    x = LOWEST if x < LOWEST else x
    shifted = x * LOG2_E + ROUND
    r = x - (shifted - ROUND) * LN2
    s = SERIES[7]
    for k in (6, 5, 4, 3, 2, 1, 0):
        s = s * r + SERIES[k]
    return float(s * float_from_bits(bits_from_float(shifted) << 52))


@compiled()
def exponentials(z: Array, m: float, out: Array) -> float:
    """out <- exp(z - m) where m = max z; returns the sum."""
    if z.size >= LANES:
        return float(_row(z, m, out))
    s = 0.0
    for c in range(z.size):
        e = exponential(np.float64(z[c]) - m)
        out[c] = e
        s += e
    return s


@intrinsic
def _row(typing: Any, z: Any, m: Any, out: Any) -> Any:
    """out <- exp(z - m) for a row of at least 16 values; returns the sum."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        memory = Memory(context, builder, signature, arguments)
        zero = constant(F64, LANES, 0.0)
        whole = loops.alloca_once_value(builder, zero)

        def add(start: Any, repeated: Any) -> None:
            x = memory.load(0, start, vector(element(z), LANES))
            if element(z) is F32:
                x = builder.fpext(x, zero.type)
            value = _exponential(builder, builder.fsub(x, spread(builder, arguments[1], LANES)))
            memory.store(value, 2, start)
            if repeated is not None:
                value = builder.select(repeated, zero, value)
            builder.store(builder.fadd(builder.load(whole), value), whole)

        size = memory.size(0, 0)
        rest = builder.urem(size, I64(LANES))
        stop = builder.sub(size, rest)
        with loops.for_range_slice(builder, I64(0), stop, I64(LANES), intp=I64) as along:
            add(along[0], None)
        with builder.if_then(builder.icmp_unsigned("!=", rest, I64(0))):
            # The last vector overlaps the one before it; what was added once is not added again.
            index = ir.Constant(vector(I64, LANES), list(range(LANES)))
            seen = spread(builder, builder.sub(I64(LANES), rest), LANES)
            add(builder.sub(size, I64(LANES)), builder.icmp_unsigned("<", index, seen))
        return fold(builder, builder.load(whole), builder.fadd)

    return numba.float64(z, numba.float64, out), generate


def _exponential(builder: Any, x: Any) -> Any:
    """The same as `exponential`, for a vector."""

    def real(value: float) -> Any:
        return constant(F64, LANES, value)

    def fused(a: Any, b: Any, c: Any) -> Any:
        return builder.fadd(builder.fmul(a, b, flags=FUSE), c, flags=FUSE)

    x = builder.select(builder.fcmp_ordered("<", x, real(LOWEST)), real(LOWEST), x)
    shifted = fused(x, real(LOG2_E), real(ROUND))
    r = fused(builder.fsub(shifted, real(ROUND)), real(-LN2), x)
    s = real(SERIES[-1])
    for coefficient in SERIES[-2::-1]:
        s = fused(s, r, real(coefficient))
    bits = builder.bitcast(shifted, vector(I64, LANES))
    power = builder.bitcast(builder.shl(bits, constant(I64, LANES, 52)), x.type)
    # 2**k is multiplied in, not added to the exponent bits: NaN stays NaN.
    return builder.fmul(s, power)
