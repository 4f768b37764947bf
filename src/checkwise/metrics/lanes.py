"""Vector operations that numba cannot express, written as portable LLVM instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numba.extending
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils

LANES = 16  # values handled together along a row of logits
WIDTH = 8  # and in the sums, whose rows are padded to it
I32 = ir.IntType(32)
I64 = ir.IntType(64)
F32 = ir.FloatType()
F64 = ir.DoubleType()
FUSE = ("contract",)  # a product may be fused with the sum that takes it, nothing else

loops: Any = cgutils


def intrinsic(generator: Callable[..., Any]) -> Any:
    """`numba.extending.intrinsic`, with a type that says as little as numba knows."""
    return numba.extending.intrinsic(generator)


class Memory:
    """Typed access to the data of the array arguments of an intrinsic."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self.builder = builder
        self.arrays: list[Any] = [
            context.make_array(kind)(context, builder, value)
            if isinstance(kind, numba.types.Array)
            else None
            for kind, value in zip(signature.args, arguments, strict=True)
        ]

    def size(self, which: int, axis: int) -> Any:
        return self.builder.extract_value(self.arrays[which].shape, axis)

    def place(self, which: int, index: Any, kind: Any) -> Any:
        address = self.builder.gep(self.arrays[which].data, [index])
        return self.builder.bitcast(address, kind.as_pointer())

    def load(self, which: int, index: Any, kind: Any) -> Any:
        return self.builder.load(self.place(which, index, kind), align=_alignment(kind))

    def store(self, value: Any, which: int, index: Any) -> None:
        place = self.place(which, index, value.type)
        self.builder.store(value, place, align=_alignment(value.type))


def element(kind: Any) -> Any:
    """LLVM's type of the elements of a float32 or float64 array."""
    return F32 if kind.dtype == numba.float32 else F64


def vector(kind: Any, width: int) -> Any:
    return ir.VectorType(kind, width)


def constant(kind: Any, width: int, value: float) -> Any:
    return ir.Constant(vector(kind, width), [value] * width)


def spread(builder: Any, value: Any, width: int) -> Any:
    """A vector with `value` in every lane."""
    blank = ir.Constant(vector(value.type, width), ir.Undefined)
    first = builder.insert_element(blank, value, I32(0))
    return builder.shuffle_vector(first, blank, ir.Constant(vector(I32, width), [0] * width))


def fold(builder: Any, lanes: Any, combine: Callable[[Any, Any], Any]) -> Any:
    """All lanes combined into one value, by halves."""
    half = lanes.type.count // 2
    while half:
        blank = ir.Constant(lanes.type, ir.Undefined)
        low, high = (
            builder.shuffle_vector(
                lanes, blank, ir.Constant(vector(I32, half), list(range(start, start + half)))
            )
            for start in (0, half)
        )
        lanes, half = combine(high, low), half // 2
    return builder.extract_element(lanes, I32(0))


def _alignment(kind: Any) -> int:
    kind = getattr(kind, "element", kind)
    return 4 if kind == F32 else 1 if kind == ir.IntType(8) else 8


@intrinsic
def float_from_bits(typing: Any, bits: Any) -> Any:
    """Reinterpret 64 bits as a float64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], F64)

    return numba.float64(numba.int64), generate


@intrinsic
def bits_from_float(typing: Any, value: Any) -> Any:
    """Reinterpret a float64 as 64 bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], I64)

    return numba.int64(numba.float64), generate


@intrinsic
def lowest_bit(typing: Any, bits: Any) -> Any:
    """Position of the lowest set bit; `bits` must not be 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return numba.int64(numba.int64), generate


@intrinsic
def lanes_equal(typing: Any, values: Any, start: Any, wanted: Any) -> Any:
    """Bit j is set where values[start + j] == wanted, for the 16 values from `start` on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        memory = Memory(context, builder, signature, arguments)
        lanes = memory.load(0, arguments[1], vector(element(values), LANES))
        equal = builder.fcmp_ordered("==", lanes, spread(builder, arguments[2], LANES))
        return builder.zext(builder.bitcast(equal, ir.IntType(LANES)), I64)

    return numba.int64(values, numba.int64, values.dtype), generate


@intrinsic
def prefetch(typing: Any, rows: Any, row: Any) -> Any:
    """Ask for rows[row] to be brought near; harmless past the end, where nothing is read."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        memory = Memory(context, builder, signature, arguments)
        size = memory.size(0, 1)
        start, line = builder.mul(arguments[1], size), 64 * 8 // rows.dtype.bitwidth
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), I32, I32, I32])
        ask = loops.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        with loops.for_range_slice(builder, I64(0), size, I64(line), intp=I64) as along:
            place = memory.place(0, builder.add(start, along[0]), ir.IntType(8))
            builder.call(ask, [place, I32(0), I32(3), I32(1)])
        return context.get_dummy_value()

    return numba.types.void(rows, numba.int64), generate


def _largest(width: int) -> Any:
    """An intrinsic f(values): the maximum of at least `width` values, NaN overlooked."""

    def largest(typing: Any, values: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            memory = Memory(context, builder, signature, arguments)
            kind = vector(element(values), width)

            def pick(a: Any, b: Any) -> Any:
                return builder.select(builder.fcmp_ordered(">", a, b), a, b)

            # The last vector overlaps the one before it, so no value is left for a slow tail.
            last = builder.sub(memory.size(0, 0), I64(width))
            best = loops.alloca_once_value(builder, memory.load(0, last, kind))
            with loops.for_range_slice(builder, I64(0), last, I64(width), intp=I64) as along:
                lanes = memory.load(0, along[0], kind)
                builder.store(pick(lanes, builder.load(best)), best)
            return fold(builder, builder.load(best), pick)

        return values.dtype(values), generate

    return intrinsic(largest)


largest_8 = _largest(8)
largest_32 = _largest(32)
