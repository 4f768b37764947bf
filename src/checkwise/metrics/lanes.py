"""Vector operations that numba cannot express, written as portable LLVM instructions."""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 16
I32 = ir.IntType(32)
I64 = ir.IntType(64)


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
        return builder.bitcast(arguments[0], I64)

    return numba.int64(numba.float64), generate


@intrinsic  # type: ignore[untyped-decorator]
def lowest_bit(typing: Any, bits: Any) -> Any:
    """Position of the lowest set bit; `bits` must not be 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return numba.int64(numba.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def lanes_equal(typing: Any, values: Any, start: Any, wanted: Any) -> Any:
    """Bit j is set where values[start + j] == wanted, for the 16 values from `start` on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = _load(context, builder, signature.args[0], arguments[0], arguments[1], LANES)
        equal = builder.fcmp_ordered("==", lanes, spread(builder, arguments[2], LANES))
        return builder.zext(builder.bitcast(equal, ir.IntType(LANES)), I64)

    return numba.int64(values, numba.int64, values.dtype), generate


def _largest(width: int) -> Any:
    """An intrinsic f(values, count): the maximum of `count` >= `width` values, NaN overlooked."""

    @intrinsic  # type: ignore[untyped-decorator]
    def largest(typing: Any, values: Any, count: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            def load(start: Any) -> Any:
                return _load(context, builder, signature.args[0], arguments[0], start, width)

            # The last vector overlaps the one before it, so no value is left for a slow tail.
            last = builder.sub(arguments[1], I64(width))
            best = cgutils.alloca_once_value(builder, load(last))
            with cgutils.for_range_slice(builder, I64(0), last, I64(width), intp=I64) as loop:
                builder.store(_pick(builder, load(loop[0]), builder.load(best)), best)
            lanes, half = builder.load(best), width // 2
            while half:
                blank = ir.Constant(lanes.type, ir.Undefined)
                low = builder.shuffle_vector(lanes, blank, indices(0, half, 1))
                high = builder.shuffle_vector(lanes, blank, indices(half, half, 1))
                lanes, half = _pick(builder, high, low), half // 2
            return builder.extract_element(lanes, I32(0))

        return values.dtype(values, numba.int64), generate

    return largest


def _load(context: Any, builder: Any, kind: Any, value: Any, start: Any, width: int) -> Any:
    array = context.make_array(kind)(context, builder, value)
    vector = ir.VectorType(context.get_value_type(kind.dtype), width)
    address = builder.gep(array.data, [start])
    return builder.load(
        builder.bitcast(address, vector.as_pointer()), align=kind.dtype.bitwidth // 8
    )


def spread(builder: Any, value: Any, width: int) -> Any:
    blank = ir.Constant(ir.VectorType(value.type, width), ir.Undefined)
    first = builder.insert_element(blank, value, I32(0))
    return builder.shuffle_vector(first, blank, indices(0, width, 0))


def indices(first: int, count: int, step: int) -> ir.Constant:
    return ir.Constant(ir.VectorType(I32, count), [first + step * j for j in range(count)])


def _pick(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


largest_8 = _largest(8)
largest_32 = _largest(32)
