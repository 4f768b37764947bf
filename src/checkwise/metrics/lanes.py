"""Vector operations that numba cannot express, written as portable LLVM instructions."""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 16
_I32 = ir.IntType(32)
_I64 = ir.IntType(64)


@intrinsic  # type: ignore[untyped-decorator]
def float_from_bits(typing: Any, bits: Any) -> Any:
    """Reinterpret 64 bits as a float64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return numba.float64(numba.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def bits_from_float(typing: Any, value: Any) -> Any:
    """Reinterpret a float64 as 64 bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _I64)

    return numba.int64(numba.float64), generate


@intrinsic  # type: ignore[untyped-decorator]
def lowest_bit(typing: Any, bits: Any) -> Any:
    """Position of the lowest set bit; `bits` must not be 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return numba.int64(numba.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def lanes_above(typing: Any, values: Any, start: Any, limit: Any) -> Any:
    """Bit j is set where values[start + j] > limit, for the 16 float64 values from `start` on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = _load(context, builder, signature.args[0], arguments[0], arguments[1], LANES)
        blank = ir.Constant(lanes.type, ir.Undefined)
        first = builder.insert_element(blank, arguments[2], _I32(0))
        limits = builder.shuffle_vector(first, blank, _indices(0, LANES, 0))
        above = builder.fcmp_ordered(">", lanes, limits)
        return builder.zext(builder.bitcast(above, ir.IntType(LANES)), _I64)

    return numba.int64(values, numba.int64, numba.float64), generate


def _largest(width: int) -> Any:
    """An intrinsic f(values, count): the maximum of `count` >= `width` values, NaN overlooked."""

    @intrinsic  # type: ignore[untyped-decorator]
    def largest(typing: Any, values: Any, count: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            def load(start: Any) -> Any:
                return _load(context, builder, signature.args[0], arguments[0], start, width)

            # The last vector overlaps the one before it, so no value is left for a slow tail.
            last = builder.sub(arguments[1], _I64(width))
            best = cgutils.alloca_once_value(builder, load(last))
            with cgutils.for_range_slice(builder, _I64(0), last, _I64(width), intp=_I64) as loop:
                builder.store(_pick(builder, load(loop[0]), builder.load(best)), best)
            lanes, half = builder.load(best), width // 2
            while half:
                blank = ir.Constant(lanes.type, ir.Undefined)
                low = builder.shuffle_vector(lanes, blank, _indices(0, half, 1))
                high = builder.shuffle_vector(lanes, blank, _indices(half, half, 1))
                lanes, half = _pick(builder, high, low), half // 2
            return builder.extract_element(lanes, _I32(0))

        return values.dtype(values, numba.int64), generate

    return largest


def _load(context: Any, builder: Any, kind: Any, value: Any, start: Any, width: int) -> Any:
    array = context.make_array(kind)(context, builder, value)
    vector = ir.VectorType(context.get_value_type(kind.dtype), width)
    address = builder.gep(array.data, [start])
    return builder.load(
        builder.bitcast(address, vector.as_pointer()), align=kind.dtype.bitwidth // 8
    )


def _indices(first: int, count: int, step: int) -> ir.Constant:
    return ir.Constant(ir.VectorType(_I32, count), [first + step * j for j in range(count)])


def _pick(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


largest_8 = _largest(8)
largest_32 = _largest(32)
