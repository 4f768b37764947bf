"""The few fields of TensorBoard's Event that say a scalar, read from their wire format.

Numbers of fields are those of event.proto, summary.proto and tensor.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

_VARINT, _EIGHT, _SPAN, _FOUR = 0, 1, 2, 5  # wire types

_WALL_TIME, _STEP, _FILE_VERSION, _SUMMARY = 1, 2, 3, 5  # Event
_VALUE = 1  # Summary
_TAG, _SIMPLE_VALUE, _TENSOR, _METADATA = 1, 2, 8, 9  # Summary.Value
_PLUGIN_DATA, _PLUGIN_NAME = 1, 1  # SummaryMetadata, PluginData
_DTYPE, _SHAPE, _CONTENT = 1, 2, 4  # TensorProto
_DIMENSION, _UNKNOWN_RANK = 2, 3  # TensorShapeProto

# By TensorProto's dtype: how one number stands in `tensor_content`, and the field of its values.
_TENSOR_TYPES = {
    1: ("<f4", 5),  # float
    2: ("<f8", 6),  # double
    3: ("<i4", 7),
    9: ("<i8", 10),
    14: ("bfloat16", 13),
    19: ("<f2", 13),  # half
}
_BITS = {"<f2": 16, "bfloat16": 32, "<f4": 32}  # of the decimal that a number stands for


class MalformedError(ValueError):
    """Bytes that are no message of the expected kind."""


@dataclass(frozen=True)
class Scalar:
    """One scalar of an event.

    Args:
        tag: its name, as it was written.
        value: the number.
        bits: width of the number in the file: 16, 32 or 64.
        position: where a 32-bit number stands; None for what stands otherwise.
    """

    tag: bytes
    value: float
    bits: int
    position: int | None = None


@dataclass(frozen=True)
class Event:
    """One event; ``wall_time`` is None and ``file_version`` empty where it has none."""

    wall_time: float | None
    step: int
    file_version: bytes
    has_summary: bool
    scalars: tuple[Scalar, ...]


def read_event(data: bytes, start: int, end: int) -> Event:
    """The event in ``data[start:end]``.

    Raises:
        MalformedError: it is none.
    """
    wall_time, step, version, has_summary = None, 0, b"", False
    scalars: list[Scalar] = []
    for number, wire, first, last in _fields(data, start, end):
        if number == _WALL_TIME and wire == _EIGHT:
            (wall_time,) = struct.unpack_from("<d", data, first)
        elif number == _STEP and wire == _VARINT:
            step = _signed(_varint(data, first, last)[0])
        elif number == _FILE_VERSION and wire == _SPAN:
            version = data[first:last]
        elif number == _SUMMARY and wire == _SPAN:
            has_summary = True
            for field, kind, begin, stop in _fields(data, first, last):
                if field == _VALUE and kind == _SPAN:
                    scalar = _scalar(data, begin, stop)
                    if scalar is not None:
                        scalars.append(scalar)
    return Event(wall_time, step, version, has_summary, tuple(scalars))


def is_one_summary(data: bytes, start: int, end: int) -> bool:
    """Whether ``data[start:end]`` is the summary of an event and nothing else."""
    return [number for number, *_ in _fields(data, start, end)] == [_SUMMARY]


def _scalar(data: bytes, start: int, end: int) -> Scalar | None:
    """The scalar of a Summary.Value; None for an image, a histogram, a text and the like."""
    tag, plugin = b"", b""
    number: tuple[float, int, int | None] | None = None
    for field, wire, first, last in _fields(data, start, end):
        if field == _TAG and wire == _SPAN:
            tag = data[first:last]
        elif field == _SIMPLE_VALUE and wire == _FOUR:
            number = struct.unpack_from("<f", data, first)[0], 32, first
        elif field == _TENSOR and wire == _SPAN:
            number = _single_number(data, first, last)
        elif field == _METADATA and wire == _SPAN:
            plugin = _plugin(data, first, last)
    if number is None or plugin not in (b"", b"scalars"):
        return None
    return Scalar(tag, *number)


def _plugin(data: bytes, start: int, end: int) -> bytes:
    """The plugin that a SummaryMetadata names."""
    for field, wire, first, last in _fields(data, start, end):
        if field == _PLUGIN_DATA and wire == _SPAN:
            for inner, kind, begin, stop in _fields(data, first, last):
                if inner == _PLUGIN_NAME and kind == _SPAN:
                    return data[begin:stop]
    return b""


def _single_number(data: bytes, start: int, end: int) -> tuple[float, int, int | None] | None:
    """The number of a TensorProto without dimensions, its bits, and where it stands if in 32."""
    dtype = 0
    spans: dict[int, tuple[int, int, int]] = {}
    for field, wire, first, last in _fields(data, start, end):
        if field == _DTYPE and wire == _VARINT:
            dtype = _varint(data, first, last)[0]
        elif field == _SHAPE and wire == _SPAN:
            if any(part in (_DIMENSION, _UNKNOWN_RANK) for part, *_ in _fields(data, first, last)):
                return None
        else:
            spans[field] = wire, first, last
    if dtype not in _TENSOR_TYPES:
        return None
    kind, values = _TENSOR_TYPES[dtype]
    bits = _BITS.get(kind, 64)
    if _CONTENT in spans:
        _, first, last = spans[_CONTENT]
        width = 2 if kind == "bfloat16" else np.dtype(kind).itemsize
        if last - first != width:
            return None
        value = _decoded(data[first:last], kind)
    elif values in spans:
        wire, first, last = spans[values]
        if kind in ("<f4", "<f8"):
            if last - first != np.dtype(kind).itemsize:
                return None
            value = _decoded(data[first:last], kind)
        else:  # a packed or a plain varint
            whole, behind = _varint(data, first, last)
            if behind != last:
                return None
            if kind in ("<i4", "<i8"):
                value = float(_signed(whole))
            else:
                value = _decoded(struct.pack("<H", whole & 0xFFFF), kind)
    else:
        return None
    return value, bits, first if kind == "<f4" else None


def _decoded(raw: bytes, kind: str) -> float:
    if kind == "bfloat16":  # the upper half of a 32-bit number
        raw, kind = b"\0\0" + raw, "<f4"
    return float(np.frombuffer(raw, kind)[0])


def _fields(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Number, wire type and span of every field of a message."""
    position = start
    while position < end:
        key, position = _varint(data, position, end)
        number, wire = key >> 3, key & 7
        if wire == _SPAN:
            length, position = _varint(data, position, end)
            last = position + length
        elif wire == _FOUR:
            last = position + 4
        elif wire == _EIGHT:
            last = position + 8
        elif wire == _VARINT:
            last = _varint(data, position, end)[1]
        else:
            raise MalformedError
        if last > end or not number:
            raise MalformedError
        yield number, wire, position, last
        position = last


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """A number of seven bits a byte, and the position behind it."""
    number = 0
    for shift in range(0, 70, 7):
        if position >= end:
            raise MalformedError
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & 0xFFFFFFFFFFFFFFFF, position
    raise MalformedError


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
