"""The three inner loops of the kernel as LLVM vector code: eight float64 values at a time."""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from checkwise.metrics.lanes import I32, I64, spread

TERMS = 9  # powers of p in a class's sums
ORDER = 5  # coefficients of a bell's local polynomial
GRID_BITS = 36  # masses are integers in units of 2**-36, so that their sums have no order
GRID_SHIFT = 1.5 * 2.0 ** (52 - GRID_BITS)  # adding it leaves those units in the low bits

_WIDTH = 8
_F64 = ir.DoubleType()
_LANES = ir.VectorType(_F64, _WIDTH)
_INTEGERS = ir.VectorType(I64, _WIDTH)
_ZERO = ir.Constant(_LANES, [0.0] * _WIDTH)
_FUSE = ("contract",)


class _Memory:
    """Typed access to the data of the array arguments of an intrinsic."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self.builder = builder
        self.arrays = [
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

    def load(self, which: int, index: Any, kind: Any = _LANES) -> Any:
        return self.builder.load(self.place(which, index, kind), align=8)

    def store(self, value: Any, which: int, index: Any) -> None:
        self.builder.store(value, self.place(which, index, value.type), align=8)


@intrinsic  # type: ignore[untyped-decorator]
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

    Shapes: values [R, P], inverse [R], powers [TERMS, P], mass [P], marks [R, bytes]. powers[k]
    gains the column sums of p^(k+1), mass those of p as integers (plus GRID_SHIFT's bits per
    row), and bit c of a row's marks tells whether p > limit. The sums stay in registers on the way
    down the rows, which no compiler does for the plain loop nest.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        memory = _Memory(context, builder, signature, arguments)
        columns, stride = memory.size(0, 1), memory.size(6, 1)
        limits, shift = (
            spread(builder, arguments[3], _WIDTH),
            ir.Constant(_LANES, [GRID_SHIFT] * _WIDTH),
        )
        sums = [cgutils.alloca_once(builder, _LANES) for _ in range(TERMS)]
        whole = cgutils.alloca_once(builder, _INTEGERS)
        with cgutils.for_range_slice(builder, I64(0), columns, I64(_WIDTH), intp=I64) as across:
            column = across[0]
            for each in sums:
                builder.store(_ZERO, each)
            builder.store(ir.Constant(_INTEGERS, [0] * _WIDTH), whole)
            with cgutils.for_range(builder, arguments[2], intp=I64) as down:
                row = down.index
                scale = spread(builder, memory.load(1, row, _F64), _WIDTH)
                here = builder.add(builder.mul(row, columns), column)
                p = builder.fmul(memory.load(0, here), scale)
                above = builder.fcmp_ordered(">", p, limits)
                byte = builder.add(builder.mul(row, stride), builder.lshr(column, I64(3)))
                memory.store(builder.bitcast(above, ir.IntType(8)), 6, byte)
                p = builder.select(above, _ZERO, p)
                units = builder.bitcast(builder.fadd(p, shift), _INTEGERS)
                builder.store(builder.add(builder.load(whole), units), whole)
                power = {1: p}
                for k in range(1, TERMS + 1):
                    if k > 1:
                        power[k] = builder.fmul(power[k // 2], power[k - k // 2], flags=_FUSE)
                    grown = builder.fadd(builder.load(sums[k - 1]), power[k], flags=_FUSE)
                    builder.store(grown, sums[k - 1])
            for k, each in enumerate(sums):
                here = builder.add(builder.mul(I64(k), columns), column)
                memory.store(builder.fadd(memory.load(4, here), builder.load(each)), 4, here)
            grown = builder.add(memory.load(5, column, _INTEGERS), builder.load(whole))
            memory.store(grown, 5, column)
        return context.get_dummy_value()

    kinds = (values, inverse, numba.int64, numba.float64, powers, mass, marks)
    return numba.types.void(*kinds), generate


@intrinsic  # type: ignore[untyped-decorator]
def bell(typing: Any, table: Any, node: Any, x: Any, out: Any) -> Any:
    """out[b] <- sum_k table[node, k, b] x^k over a padded row of bins; returns the row's sum."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        memory = _Memory(context, builder, signature, arguments)
        bins = memory.size(0, 2)
        start = builder.mul(arguments[1], builder.mul(bins, I64(ORDER)))
        x = spread(builder, arguments[2], _WIDTH)
        whole = cgutils.alloca_once_value(builder, _ZERO)
        with cgutils.for_range_slice(builder, I64(0), bins, I64(_WIDTH), intp=I64) as across:
            b = across[0]

            def term(k: int) -> Any:
                return memory.load(0, builder.add(builder.add(start, b), builder.mul(bins, I64(k))))

            value = term(ORDER - 1)
            for k in reversed(range(ORDER - 1)):
                value = builder.fadd(builder.fmul(value, x, flags=_FUSE), term(k), flags=_FUSE)
            memory.store(value, 3, b)
            builder.store(builder.fadd(builder.load(whole), value), whole)
        lanes, total = builder.load(whole), _F64(0.0)
        for j in range(_WIDTH):
            total = builder.fadd(total, builder.extract_element(lanes, I32(j)))
        return total

    return numba.float64(table, numba.int64, numba.float64, out), generate


@intrinsic  # type: ignore[untyped-decorator]
def add_scaled(typing: Any, target: Any, row: Any, scale: Any, values: Any) -> Any:
    """target[row] += scale * values, for padded rows of equal length."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        memory = _Memory(context, builder, signature, arguments)
        bins, scale = memory.size(3, 0), spread(builder, arguments[2], _WIDTH)
        start = builder.mul(arguments[1], bins)
        with cgutils.for_range_slice(builder, I64(0), bins, I64(_WIDTH), intp=I64) as across:
            here = builder.add(start, across[0])
            more = builder.fmul(memory.load(3, across[0]), scale, flags=_FUSE)
            memory.store(builder.fadd(memory.load(0, here), more, flags=_FUSE), 0, here)
        return context.get_dummy_value()

    return numba.types.void(target, numba.int64, numba.float64, values), generate
