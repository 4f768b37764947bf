"""The three inner loops of the kernel as LLVM vector code: eight float64 values at a time."""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir  # type: ignore[import-untyped]

from checkwise.metrics.lanes import (
    F64,
    FUSE,
    I64,
    WIDTH,
    Memory,
    constant,
    fold,
    intrinsic,
    loops,
    spread,
    vector,
)

ORDER = 6  # coefficients of a bell's local polynomial
GRID_BITS = 36  # masses are integers in units of 2**-36, so that their sums have no order
GRID_SHIFT = 1.5 * 2.0 ** (52 - GRID_BITS)  # adding it leaves those units in the low bits

_LANES = vector(F64, WIDTH)
_INTEGERS = vector(I64, WIDTH)
_ZERO = constant(F64, WIDTH, 0.0)


def _power_sums(terms: int) -> Any:
    def power_sums(
        typing: Any,
        values: Any,
        inverse: Any,
        rows: Any,
        limit: Any,
        powers: Any,
        mass: Any,
        marks: Any,
    ) -> Any:
        """Add powers of p = values * inverse where p <= limit, and mark the places where p > limit.

        Shapes: values [R, P], inverse [R], powers [terms, P], mass [P], marks [R, bytes]. powers[k]
        gains the column sums of p^(k+1), mass those of p as integers (plus GRID_SHIFT's bits per
        row), and bit c of a row's marks tells whether p > limit. The sums stay in registers on
        the way down the rows, which no compiler does for the plain loop nest.
        """

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            memory = Memory(context, builder, signature, arguments)
            columns, stride = memory.size(0, 1), memory.size(6, 1)
            limits = spread(builder, arguments[3], WIDTH)
            shift = constant(F64, WIDTH, GRID_SHIFT)
            sums = [loops.alloca_once(builder, _LANES) for _ in range(terms)]
            whole = loops.alloca_once(builder, _INTEGERS)
            with loops.for_range_slice(builder, I64(0), columns, I64(WIDTH), intp=I64) as across:
                column = across[0]
                for each in sums:
                    builder.store(_ZERO, each)
                builder.store(constant(I64, WIDTH, 0), whole)
                with loops.for_range(builder, arguments[2], intp=I64) as down:
                    row = down.index
                    scale = spread(builder, memory.load(1, row, F64), WIDTH)
                    here = builder.add(builder.mul(row, columns), column)
                    p = builder.fmul(memory.load(0, here, _LANES), scale)
                    above = builder.fcmp_ordered(">", p, limits)
                    byte = builder.add(builder.mul(row, stride), builder.lshr(column, I64(3)))
                    memory.store(builder.bitcast(above, ir.IntType(8)), 6, byte)
                    p = builder.select(above, _ZERO, p)
                    units = builder.bitcast(builder.fadd(p, shift), _INTEGERS)
                    builder.store(builder.add(builder.load(whole), units), whole)
                    power = {1: p}
                    for k in range(1, terms + 1):
                        if k > 1:
                            power[k] = builder.fmul(power[k // 2], power[k - k // 2], flags=FUSE)
                        grown = builder.fadd(builder.load(sums[k - 1]), power[k], flags=FUSE)
                        builder.store(grown, sums[k - 1])
                for k, each in enumerate(sums):
                    here = builder.add(builder.mul(I64(k), columns), column)
                    memory.store(
                        builder.fadd(memory.load(4, here, _LANES), builder.load(each)), 4, here
                    )
                grown = builder.add(memory.load(5, column, _INTEGERS), builder.load(whole))
                memory.store(grown, 5, column)
            return context.get_dummy_value()

        kinds = (values, inverse, numba.int64, numba.float64, powers, mass, marks)
        return numba.types.void(*kinds), generate

    return intrinsic(power_sums)


power_sums_9 = _power_sums(9)
power_sums_13 = _power_sums(13)


@intrinsic
def bell(typing: Any, table: Any, node: Any, x: Any, out: Any) -> Any:
    """out <- sum_k table[node, :, k] x^k, a padded row of bins; returns the row's sum."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        memory = Memory(context, builder, signature, arguments)
        whole = loops.alloca_once_value(builder, _ZERO)
        with loops.for_range(builder, memory.size(0, 1), intp=I64) as along:
            value = _bell(builder, memory, arguments[1], arguments[2], along.index)
            memory.store(value, 3, builder.mul(along.index, I64(WIDTH)))
            builder.store(builder.fadd(builder.load(whole), value), whole)
        return fold(builder, builder.load(whole), builder.fadd)

    return numba.float64(table, numba.int64, numba.float64, out), generate


@intrinsic
def add_scaled(typing: Any, target: Any, row: Any, scale: Any, values: Any) -> Any:
    """target[row] += scale * values, for padded rows of equal length."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        memory = Memory(context, builder, signature, arguments)
        bins, scale = memory.size(3, 0), spread(builder, arguments[2], WIDTH)
        start = builder.mul(arguments[1], bins)
        with loops.for_range_slice(builder, I64(0), bins, I64(WIDTH), intp=I64) as across:
            here = builder.add(start, across[0])
            more = builder.fmul(memory.load(3, across[0], _LANES), scale, flags=FUSE)
            memory.store(builder.fadd(memory.load(0, here, _LANES), more, flags=FUSE), 0, here)
        return context.get_dummy_value()

    return numba.types.void(target, numba.int64, numba.float64, values), generate


@intrinsic
def add_bell(
    typing: Any, table: Any, node: Any, x: Any, target: Any, row: Any, first: Any, second: Any
) -> Any:
    """target[row, :, 0] += first * bell and target[row, :, 1] += second * bell."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        memory = Memory(context, builder, signature, arguments)
        groups = memory.size(0, 1)
        with loops.for_range(builder, groups, intp=I64) as along:
            value = _bell(builder, memory, arguments[1], arguments[2], along.index)
            here = builder.add(builder.mul(arguments[4], groups), along.index)
            here = builder.mul(here, I64(2 * WIDTH))
            for offset, scale in ((0, arguments[5]), (WIDTH, arguments[6])):
                place = builder.add(here, I64(offset))
                more = builder.fmul(value, spread(builder, scale, WIDTH), flags=FUSE)
                grown = builder.fadd(memory.load(3, place, _LANES), more, flags=FUSE)
                memory.store(grown, 3, place)
        return context.get_dummy_value()

    real = numba.float64
    return numba.types.void(table, numba.int64, real, target, numba.int64, real, real), generate


def _bell(builder: Any, memory: Memory, node: Any, x: Any, group: Any) -> Any:
    """sum_k table[node, group, k] x^k for the eight bins of a group; the table is argument 0."""
    x = spread(builder, x, WIDTH)
    start = builder.add(builder.mul(node, memory.size(0, 1)), group)
    start = builder.mul(start, I64(ORDER * WIDTH))

    def term(k: int) -> Any:
        return memory.load(0, builder.add(start, I64(k * WIDTH)), _LANES)

    value = term(ORDER - 1)
    for k in reversed(range(ORDER - 1)):
        value = builder.fadd(builder.fmul(value, x, flags=FUSE), term(k), flags=FUSE)
    return value
