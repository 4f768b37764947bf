"""The scalars of one TensorBoard event file: TensorFlow's records around protobuf messages.

A record is its length, a checksum of that, its bytes, and a checksum of those. Keys of fields
(number and wire type in one) are those of event.proto, summary.proto and tensor.proto.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import numpy as np

from checkwise.errors import InputError
from checkwise.readers.log import FloatArray
from checkwise.readers.request import opened

MOST_TAGS: Final = 1 << 16
LARGEST_RECORD: Final = 1 << 26  # bytes; a larger one holds images or a graph and is passed over
LARGEST_CHECKED: Final = 1 << 16  # bytes; no record of scalars is larger
_HEADER: Final = struct.Struct("<QI")
_CHUNK: Final = 1 << 16

_WALL_TIME, _STEP, _SUMMARY = 0x09, 0x10, 0x2A  # Event
_VALUE = 0x0A  # Summary
_TAG, _SIMPLE_VALUE, _TENSOR, _METADATA = 0x0A, 0x15, 0x42, 0x4A  # Summary.Value
_PLUGIN_DATA, _PLUGIN_NAME = 0x0A, 0x0A  # SummaryMetadata, PluginData
_DTYPE: Final = 0x08  # TensorProto
_NUMBERS: Final = (0x22, 0x2A, 0x2D, 0x32, 0x31)  # its content, float_val and double_val
_KINDS: Final = {1: "<f", 2: "<d"}  # by dtype; writers make others one of these


class Scalar(NamedTuple):
    """One scalar of an event, and whether the file has it in 64 bits."""

    tag: str
    value: float
    is_wide: bool


class Event(NamedTuple):
    """One event; files begin with one that has a time."""

    wall_time: float | None
    step: int
    scalars: list[Scalar]


class EventFile:
    """The scalars of a file, once they were read.

    Attributes:
        path: the file.
        start: wall time of its first event; None without one.
        torn: where an unfinished last record starts; None where the file ends with a whole one.
        tags: the number of each scalar tag, in the order of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.start: float | None = None
        self.torn: int | None = None
        self.tags: dict[str, int] = {}
        self._wide: set[str] = set()
        self._numbers, self._steps, self._values = array("H"), array("q"), array("d")

    def read(self) -> EventFile:
        """Read every scalar; a record in the middle that is damaged is refused."""
        for event in self.events():
            for tag, value, is_wide in event.scalars:
                if tag not in self.tags and len(self.tags) == MOST_TAGS:
                    raise InputError(
                        f"Expected at most {MOST_TAGS:,} tags in one event file, but {self.path} "
                        "has more: check what wrote the file.",
                        code="unsupported",
                    )
                self._numbers.append(self.tags.setdefault(tag, len(self.tags)))
                self._steps.append(event.step)
                self._values.append(value)
                if is_wide:
                    self._wide.add(tag)
        return self

    def points(self, tag: str) -> tuple[FloatArray, FloatArray]:
        """Steps and numbers of a tag, as far as a short number tells what somebody logged."""
        rows = np.array(self._numbers, np.uint16) == self.tags[tag]
        steps = np.array(self._steps, np.float64)[rows]
        values = np.array(self._values, np.float64)[rows]
        for first in range(0, 0 if tag in self._wide else len(values), _CHUNK):
            with np.errstate(invalid="ignore"):  # Python 3.14 keeps a signalling NaN as it is
                short = values[first : first + _CHUNK].astype(np.float32)
            values[first : first + _CHUNK] = short.astype("U").astype(np.float64)
        return steps, values

    def events(self) -> Iterator[Event]:
        """Every event; afterwards the start is known, and how the file ends."""
        with opened(self.path) as file:
            for position, data in self._records(file):
                try:
                    event = _event(data)
                except (ValueError, IndexError, struct.error):
                    event = None
                if event is None or (self.start is None and event.wall_time is None):
                    raise InputError(
                        f"Expected TensorBoard events in {self.path}, but the record at byte "
                        f"{position} is none: name an event file, or the folder that holds it.",
                        code="format",
                    )
                self.start = event.wall_time if self.start is None else self.start
                yield event

    def _records(self, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
        """Position and bytes of every whole record.

        A file that ends within a record, or whose last record is followed by nothing but zeros (a
        machine that lost power), was being written when its process died: that record is left out.
        """
        size = os.fstat(file.fileno()).st_size  # what is written meanwhile is for the next reading
        position = 0
        while position < size:
            self.torn = position
            if position + _HEADER.size > size:
                return
            length, check = _HEADER.unpack(file.read(_HEADER.size))
            behind = position + _HEADER.size + length + 4
            is_sound = check == _masked_length(length)
            if is_sound:
                if behind > size:
                    return
                if length > LARGEST_RECORD:
                    position = file.seek(behind)
                    continue
                data = file.read(length)
                check = int.from_bytes(file.read(4), "little")
                is_sound = length > LARGEST_CHECKED or check == masked(data)
            if not is_sound:
                if any(file.read(1 << 20)):
                    raise InputError(
                        f"Expected whole records in {self.path}, but the record at byte {position} "
                        "is damaged (its checksum differs): copy the file again from where it was "
                        "written. To use only what stands before the damage, cut a copy there "
                        f"(`head -c {position}`).",
                        code="format",
                    )
                return
            yield position, data
            position = behind
        self.torn = None


def is_event_file(path: Path) -> bool:
    """Whether the first record of a file is an event, with the right checksums."""
    try:
        return next(EventFile(path).events(), None) is not None
    except InputError:
        return False


@cache
def _crc_table() -> list[int]:
    table = []
    for register in range(256):
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
        table.append(register)
    return table


def masked(message: bytes) -> int:
    """The CRC-32C of a message, masked as TensorFlow stores it."""
    table, register = _crc_table(), 0xFFFFFFFF
    for byte in message:
        register = table[register & 255 ^ byte] ^ register >> 8
    register ^= 0xFFFFFFFF
    return (register >> 15 | register << 17 & 0xFFFFFFFF) + 0xA282EAD8 & 0xFFFFFFFF


@lru_cache(1 << 12)
def _masked_length(length: int) -> int:
    return masked(length.to_bytes(8, "little"))


def _event(data: bytes) -> Event:
    wall_time, step, scalars = None, 0, []
    for key, value in fields(data):
        if key == _WALL_TIME:
            (wall_time,) = struct.unpack("<d", value)
        elif key == _STEP:
            step = _varint(value, 0)[0]
        elif key == _SUMMARY:
            found = (_scalar(inner) for key, inner in fields(value) if key == _VALUE)
            scalars += [scalar for scalar in found if scalar is not None]
    return Event(wall_time, step - (1 << 64) if step >> 63 else step, scalars)


def _scalar(data: bytes) -> Scalar | None:
    """The scalar of a Summary.Value; None for an image, a histogram, a text and the like."""
    tag, plugin, number = b"", b"", None
    for key, value in fields(data):
        if key == _TAG:
            tag = value
        elif key == _SIMPLE_VALUE:
            number = struct.unpack("<f", value)[0], False
        elif key == _TENSOR:
            number = _single_number(value)
        elif key == _METADATA:
            inner = [data for key, data in fields(value) if key == _PLUGIN_DATA]
            plugin = b"".join(v for data in inner for key, v in fields(data) if key == _PLUGIN_NAME)
    if number is None or plugin not in (b"", b"scalars"):
        return None
    return Scalar(tag.decode("utf-8", "backslashreplace"), *number)


def _single_number(tensor: bytes) -> tuple[float, bool] | None:
    """The number of a TensorProto that holds one, and whether it has 64 bits."""
    kind, number = "", b""
    for key, value in fields(tensor):
        if key == _DTYPE:
            kind = _KINDS.get(_varint(value, 0)[0], "")
        elif key in _NUMBERS:
            number = value
    if not kind or len(number) != struct.calcsize(kind):
        return None
    return struct.unpack(kind, number)[0], kind == "<d"


def fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Key and bytes of every field of a message."""
    position, end = 0, len(data)
    while position < end:
        key, position = _varint(data, position)
        wire = key & 7
        if wire == 2:
            length, position = _varint(data, position)
        elif wire == 0:
            length = _varint(data, position)[1] - position
        else:
            length = {1: 8, 5: 4}.get(wire, end)  # there are no others
        behind = position + length
        if behind > end or key < 8:
            raise ValueError
        yield key, data[position:behind]
        position = behind


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A number of seven bits a byte, and the position behind it."""
    number = data[position]
    if number < 0x80:  # nearly all of them
        return number, position + 1
    number = 0
    for place in range(10):
        byte = data[position + place]
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number & 0xFFFFFFFFFFFFFFFF, position + place + 1
    raise ValueError
