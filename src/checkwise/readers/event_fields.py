"""The few fields of TensorBoard's Event that say a scalar, read from their wire format.

Numbers of fields are those of event.proto, summary.proto and tensor.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

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

_Number = tuple[float, int, tuple[int, int] | None]  # value, bits, span


class MalformedError(ValueError):
    """Bytes that are no message of the expected kind."""


class Scalar(NamedTuple):  # half the time of a data class; there may be millions
    """One scalar of an event.

    Args:
        tag: its name, as it was written.
        value: the number.
        bits: width of the number in the file: 16, 32 or 64.
        span: where a float of 32 or 64 bits stands; None for other numbers.
    """

    tag: bytes
    value: float
    bits: int
    span: tuple[int, int] | None = None


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
    length = end - start - 7  # of the tag, if nothing but a tag and a simple value is here
    if 0 <= length < 0x80 and data[start : start + 2] == bytes((_TAG << 3 | _SPAN, length)):
        behind = start + 2 + length
        if data[behind] == _SIMPLE_VALUE << 3 | _FOUR:
            (value,) = struct.unpack_from("<f", data, behind + 1)
            return Scalar(data[start + 2 : behind], value, 32, (behind + 1, end))
    tag, plugin = b"", b""
    number: _Number | None = None
    for field, wire, first, last in _fields(data, start, end):
        if field == _TAG and wire == _SPAN:
            tag = data[first:last]
        elif field == _SIMPLE_VALUE and wire == _FOUR:
            number = struct.unpack_from("<f", data, first)[0], 32, (first, last)
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


def _single_number(data: bytes, start: int, end: int) -> _Number | None:
    """The number of a TensorProto without dimensions, its bits and, for a float, its span."""
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
    return value, bits, (first, last) if kind in ("<f4", "<f8") else None


def _decoded(raw: bytes, kind: str) -> float:
    if kind == "bfloat16":  # the upper half of a 32-bit number
        raw, kind = b"\0\0" + raw, "<f4"
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        return float(np.frombuffer(raw, kind)[0])


def _fields(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Number, wire type and span of every field of a message."""
    position = start
    while position < end:
        key, position = _varint(data, position, end)
        wire = key & 7
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
        if last > end or key < 8:
            raise MalformedError
        yield key >> 3, wire, position, last
        position = last


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """A number of seven bits a byte, and the position behind it."""
    if position < end and data[position] < 0x80:  # nearly all of them
        return data[position], position + 1
    number = 0
    for place, byte in enumerate(data[position : min(position + 10, end)]):
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number & 0xFFFFFFFFFFFFFFFF, position + place + 1
    raise MalformedError


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
