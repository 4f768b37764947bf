"""The scalars of one TensorBoard event file: TensorFlow's records around protobuf messages.

A record is its length, a checksum of that, its bytes, and a checksum of those. Keys of fields
(number and wire type in one) are those of event.proto, summary.proto and tensor.proto.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.readers.request import opened

MOST_SCALARS = 1 << 25  # of one file; each takes 16 bytes
MOST_TAGS = 1 << 16
BLOCK = 1 << 12  # points that are kept together
LARGEST_RECORD = 1 << 26  # bytes; a larger one holds images or a graph and is passed over
LARGEST_CHECKED = 1 << 16  # bytes; no record of scalars is larger
NEAR_THE_START = 1 << 20  # bytes
HEADER = struct.Struct("<QI")

WALL_TIME, STEP, FILE_VERSION, SUMMARY = 0x09, 0x10, 0x1A, 0x2A  # Event
VALUE = 0x0A  # Summary
TAG, SIMPLE_VALUE, TENSOR, METADATA = 0x0A, 0x15, 0x42, 0x4A  # Summary.Value
PLUGIN_DATA, PLUGIN_NAME = 0x0A, 0x0A  # SummaryMetadata, PluginData
DTYPE, SHAPE, CONTENT = 0x08, 0x12, 0x22  # TensorProto
DIMENSION, UNKNOWN_RANK = 2, 3  # numbers of fields of TensorShapeProto
# By TensorProto's dtype: how a number stands in its content, the field of its values, and the bits
# of the decimal that it stands for.
TENSORS = {
    1: ("<f", 5, 32),
    2: ("<d", 6, 64),
    3: ("<i", 7, 64),
    9: ("<q", 10, 64),
    14: ("bfloat16", 13, 32),
    19: ("<e", 13, 16),
}


class Scalar(NamedTuple):
    """One scalar of an event; ``bits`` is the width of the number in the file."""

    tag: bytes
    value: float
    bits: int


class Event(NamedTuple):
    """One event; ``starts_file`` says that event files begin so (CatBoost's without a version)."""

    wall_time: float
    step: int
    starts_file: bool
    scalars: list[Scalar]


class Series:
    """The points of one tag, in the order of the file; ``bits`` is the widest number's."""

    def __init__(self) -> None:
        self.bits = 0
        # Arrays that grow side by side would leave ten times their size in holes.
        self._blocks = [(array("q"), array("d"))]

    def add(self, step: int, value: float, bits: int) -> None:
        if len(self._blocks[-1][0]) == BLOCK:
            self._blocks.append((array("q"), array("d")))
        steps, values = self._blocks[-1]
        steps.append(step)
        values.append(value)
        self.bits = max(self.bits, bits)

    @property
    def steps(self) -> NDArray[np.int64]:
        return np.concatenate([np.array(steps, np.int64) for steps, _ in self._blocks])

    @property
    def values(self) -> NDArray[np.float64]:
        return np.concatenate([np.array(values, np.float64) for _, values in self._blocks])


@dataclass
class EventFile:
    """What was read of one event file.

    Args:
        path: the file.
        start: wall time of its first record; None without one.
        series: the points of each scalar tag, tags in the order of the file.
        torn: where an unfinished last record starts; None where the file ends with a whole one.
        passed_over: how many records were larger than ``LARGEST_RECORD``.
    """

    path: Path
    start: float | None = None
    series: dict[str, Series] = field(default_factory=dict)
    torn: int | None = None
    passed_over: int = 0

    @property
    def notes(self) -> list[str]:
        name, notes = self.path.name, []
        if self.start is None:
            notes.append(f"{name} holds no whole record")
        elif self.torn is not None:
            notes.append(
                f"{name} ends within a record (byte {self.torn}): its writer was stopped or is "
                "still writing; that record is left out"
            )
        if self.passed_over:
            size = f"{LARGEST_RECORD >> 20} MiB"
            notes.append(
                f"{name}: records larger than {size} were passed over ({self.passed_over})"
            )
        return notes


def read_event_file(path: Path) -> EventFile:
    """Every scalar of an event file.

    Raises:
        InputError: a record in the middle is damaged, or a record is no event.
    """
    found, count = EventFile(path), 0
    for _, event in events(path, found):
        for tag, value, bits in event.scalars:
            name = decoded(tag)
            if name not in found.series:
                found.series[name] = Series()
            found.series[name].add(event.step, value, bits)
            count += 1
        if count > MOST_SCALARS or len(found.series) > MOST_TAGS:
            most, what = (MOST_SCALARS, "scalars") if count > MOST_SCALARS else (MOST_TAGS, "tags")
            raise InputError(
                f"Expected at most {most:,} {what} in one event file, but {path} has more: check "
                "what wrote the file.",
                code="unsupported",
            )
    return found


def is_event_file(path: Path) -> bool:
    """Whether the first record of a file is an event, with the right checksums."""
    try:
        return next(events(path, EventFile(path)), None) is not None
    except InputError:
        return False


def first_tag(path: Path) -> str | None:
    """The first scalar tag near the start of an event file, if there is one."""
    for position, event in events(path, EventFile(path)):
        if event.scalars:
            return decoded(event.scalars[0].tag)
        if position > NEAR_THE_START:
            break
    return None


def decoded(tag: bytes) -> str:
    """A tag as text; bytes that are no UTF-8 stay visible."""
    return tag.decode("utf-8", "backslashreplace")


def events(path: Path, found: EventFile) -> Iterator[tuple[int, Event]]:
    """Every event with its position; ``found`` gets the start and how the file ended."""
    with opened(path) as file:
        for position, data in _records(file, found):
            try:
                event = _event(data)
            except (ValueError, IndexError, struct.error):
                event = None
            if event is None or (found.start is None and not event.starts_file):
                raise InputError(
                    f"Expected TensorBoard events in {path}, but the record at byte {position} is "
                    "none: name an event file, or the folder that holds it.",
                    code="format",
                )
            if found.start is None:
                found.start = event.wall_time
            yield position, event


def _records(file: BinaryIO, found: EventFile) -> Iterator[tuple[int, bytes]]:
    """Position and bytes of every whole record.

    A file that ends within a record, or whose last record is followed by nothing but zeros (a
    machine that lost power), was being written when its process died: that record is left out.
    """
    size = os.fstat(file.fileno()).st_size  # what is written meanwhile is for the next reading
    position = whole = 0
    while position < size:
        header = file.read(HEADER.size)
        behind = position + HEADER.size
        if behind > size:
            break
        length, check = HEADER.unpack(header)
        is_sound = check == _masked_length(length)
        if is_sound:
            behind += length + 4
            if behind > size:
                break
            if length > LARGEST_RECORD:
                file.seek(behind)
                found.passed_over += 1
                position = behind
                continue
            data = file.read(length)
            check = int.from_bytes(file.read(4), "little")
            is_sound = length > LARGEST_CHECKED or check == masked(data)
        if not is_sound:
            _refuse_damage(file, found.path, position, behind, whole)
            break
        yield position, data
        position, whole = behind, whole + 1
    found.torn = position if position < size else None


def _refuse_damage(file: BinaryIO, path: Path, start: int, behind: int, whole: int) -> None:
    """Refuse a damaged record, unless nothing but zeros follows it."""
    file.seek(behind)
    while chunk := file.read(1 << 20):
        if chunk.count(0) != len(chunk):
            raise InputError(
                f"Expected whole records in {path}, but the record at byte {start} is damaged "
                f"(its checksum differs), after {whole} whole ones: copy the file again from where "
                f"it was written. To use only what stands before the damage, cut a copy there "
                f"(`head -c {start}`).",
                code="format",
            )


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
    wall_time, step, version, summaries = None, 0, b"", []
    for key, value in fields(data):
        if key == WALL_TIME:
            (wall_time,) = struct.unpack("<d", value)
        elif key == STEP:
            step = _signed(_varint(value, 0)[0])
        elif key == FILE_VERSION:
            version = value
        elif key == SUMMARY:
            summaries.append(value)
    values = [value for s in summaries for key, value in fields(s) if key == VALUE]
    scalars = [scalar for value in values if (scalar := _scalar(value)) is not None]
    starts_file = version.startswith(b"brain.Event:") or (wall_time is not None and bool(summaries))
    return Event(wall_time or 0.0, step, starts_file, scalars)


def _scalar(data: bytes) -> Scalar | None:
    """The scalar of a Summary.Value; None for an image, a histogram, a text and the like."""
    tag, plugin, number = b"", b"", None
    for key, value in fields(data):
        if key == TAG:
            tag = value
        elif key == SIMPLE_VALUE:
            number = struct.unpack("<f", value)[0], 32
        elif key == TENSOR:
            number = _single_number(value)
        elif key == METADATA:
            inner = [data for key, data in fields(value) if key == PLUGIN_DATA]
            names = [name for data in inner for key, name in fields(data) if key == PLUGIN_NAME]
            plugin = names[0] if names else b""
    if number is None or plugin not in (b"", b"scalars"):
        return None
    return Scalar(tag, *number)


def _single_number(data: bytes) -> tuple[float, int] | None:
    """The number of a TensorProto without dimensions, and its bits."""
    dtype, content, values = 0, None, {}
    for key, value in fields(data):
        if key == DTYPE:
            dtype = _varint(value, 0)[0]
        elif key == SHAPE:
            if any(part >> 3 in (DIMENSION, UNKNOWN_RANK) for part, _ in fields(value)):
                return None
        elif key == CONTENT:
            content = value
        else:
            values[key >> 3] = value
    if dtype not in TENSORS:
        return None
    kind, number, bits = TENSORS[dtype]
    raw = content if content is not None else values.get(number)
    if raw is not None and content is None and kind not in ("<f", "<d"):  # a varint
        whole, behind = _varint(raw, 0)
        if behind != len(raw):
            return None
        if kind in ("<i", "<q"):
            return float(_signed(whole)), bits
        raw = struct.pack("<H", whole & 0xFFFF)
    if raw is not None and kind == "bfloat16":  # the upper half of a 32-bit number
        raw, kind = b"\0\0" + raw, "<f"
    if raw is None or len(raw) != struct.calcsize(kind):
        return None
    return float(struct.unpack(kind, raw)[0]), bits


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


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
