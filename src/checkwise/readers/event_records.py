"""CRC-32C, the checksum of TensorFlow's records, of many records at once.

The checksum is linear: with the register at zero, that of a message is the exclusive or of one
table entry per byte, which depends on the byte and on how many bytes follow it. So records of equal
length are a matrix of bytes, and their checksums one look-up and one reduction.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.readers.event_fields import Event, is_one_summary
from checkwise.store import open_regular

Bytes = NDArray[np.uint8]
Checks = NDArray[np.uint32]

_POLYNOMIAL = 0x82F63B78
_MASK = 0xA282EAD8
_ROW = 2048  # bytes looked up at once; longer messages are folded
_CELLS = 1 << 18  # look-ups at a time: the matrices stay in the processor's cache


@cache
def _tables() -> Checks:
    """``[p, b]``: what byte ``b`` adds to the register when ``p`` bytes follow it."""
    single = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        single = np.where(single & 1, (single >> 1) ^ np.uint32(_POLYNOMIAL), single >> 1)
    tables = np.empty((_ROW, 256), np.uint32)
    tables[0] = single
    for p in range(1, _ROW):
        tables[p] = single[tables[p - 1] & 255] ^ (tables[p - 1] >> 8)
    return tables


@cache
def _start(length: int) -> int:
    """The register, all ones at the start, after ``length`` bytes of zero."""
    register = 0xFFFFFFFF
    single = _tables()[0]
    for _ in range(length):
        register = int(single[register & 255]) ^ (register >> 8)
    return register


def _registers(rows: Bytes) -> Checks:
    """The register after each row of at most ``_ROW`` bytes, starting from zero."""
    length = rows.shape[1]
    offsets = 256 * np.arange(length - 1, -1, -1)
    registers = np.empty(len(rows), np.uint32)
    step = max(1, _CELLS // max(1, length))
    flat = _tables().ravel()
    for first in range(0, len(rows), step):
        part = rows[first : first + step]
        registers[first : first + step] = np.bitwise_xor.reduce(flat[part + offsets], axis=1)
    return registers


def _advance(register: int, length: int) -> int:
    """The register after ``length`` (at least four) more bytes of zero."""
    tables = _tables()
    return int(
        tables[length - 1, register & 255]
        ^ tables[length - 2, register >> 8 & 255]
        ^ tables[length - 3, register >> 16 & 255]
        ^ tables[length - 4, register >> 24]
    )


def masked_rows(rows: Bytes) -> Checks:
    """The masked CRC-32C of each row, as TensorFlow stores it."""
    length = rows.shape[1]
    if length <= _ROW:
        checks = _registers(rows) ^ np.uint32(_start(length))
    else:
        checks = np.array([_long(row) for row in rows], np.uint32)
    checks = ~checks
    checks = (checks >> np.uint32(15)) | (checks << np.uint32(17))
    return checks + np.uint32(_MASK)


def _long(row: Bytes) -> int:
    """The register after a row longer than ``_ROW``."""
    odd = len(row) % _ROW
    register = int(_registers(row[None, :odd])[0]) ^ _start(odd)
    for block in _registers(row[odd:].reshape(-1, _ROW)).tolist():
        register = _advance(register, _ROW) ^ block
    return register


def masked(message: bytes) -> int:
    """The masked CRC-32C of one message."""
    return int(masked_rows(np.frombuffer(message, np.uint8)[None, :])[0])


Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_LONGEST, _MOST, _MOST_LAYOUTS = 512, 1 << 14, 4


@dataclass
class Shapes:
    """The shapes met so far.

    A layout is the width of the value in bytes and how many bytes follow it. A shape is all that
    stands behind the step but the value; it belongs to the number of a tag.
    """

    layouts: dict[tuple[int, int], dict[bytes, int]] = field(default_factory=dict)

    def known(self, data: bytes, bodies: Integers, ends: Integers) -> tuple[Integers, Floats]:
        """Number of the tag whose shape each record has (-1 for none), and its value.

        Args:
            data: what holds the records.
            bodies: where that which follows the step of each record starts.
            ends: where each record ends.
        """
        numbers, values = np.full(len(ends), -1, np.int64), np.zeros(len(ends))
        for (width, tail), shapes in self.layouts.items():
            places = ends - tail - width
            rest = np.flatnonzero((numbers < 0) & (places > bodies))
            spans = zip(bodies[rest].tolist(), places[rest].tolist(), strict=True)
            behind = width + tail
            numbers[rest] = [
                shapes.get(data[body:place] + data[place + width : place + behind], -1)
                for body, place in spans
            ]
            rest = rest[numbers[rest] >= 0]
            raw = np.frombuffer(data, np.uint8)[places[rest, None] + np.arange(width)]
            with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
                values[rest] = raw.view(f"<f{width}")[:, 0]
        return numbers, values

    def learn(self, data: bytes, body: int, end: int, event: Event, number: int) -> None:
        """Remember the shape of an event that is one float of the tag with this number."""
        scalar = event.scalars[0]
        if scalar.span is None or end - body > _LONGEST or not is_one_summary(data, body, end):
            return
        first, last = scalar.span
        layout = last - first, end - last
        if layout not in self.layouts and len(self.layouts) == _MOST_LAYOUTS:
            return
        shapes = self.layouts.setdefault(layout, {})
        if len(shapes) < _MOST:
            shapes[data[body:first] + data[last:end]] = number


BLOCK = 1 << 20  # bytes read at once
LARGEST_RECORD = 1 << 26  # bytes; a larger one holds images or a graph and is passed over

_HEADER = struct.Struct("<QI")
_AROUND = _HEADER.size + 4  # bytes of a record beyond its data

Positions = NDArray[np.int64]


@dataclass(frozen=True)
class Block:
    """Whole records with the right checksums.

    Args:
        data: bytes of the file.
        starts: where each record's data starts in ``data``.
        lengths: bytes of each record's data.
        offset: position of ``data`` in the file.
    """

    data: bytes
    starts: Positions
    lengths: Positions
    offset: int


@dataclass(frozen=True)
class Ending:
    """How a file ended.

    Args:
        torn: position of an unfinished last record, None where the file ends with a whole one.
        passed_over: how many records were larger than ``LARGEST_RECORD``.
    """

    torn: int | None = None
    passed_over: int = 0


class _LengthChecks(dict[int, int]):
    """Checksum of each length: a file has few different ones."""

    def __missing__(self, length: int) -> int:
        check = self[length] = masked(struct.pack("<Q", length))
        return check


def read_blocks(path: Path) -> Iterator[Block | Ending]:
    """The records of a file, block by block; the last item says how it ended.

    A file that ends within a record, or whose last record is followed by nothing but zeros (a
    machine that lost power), was being written when its process died: that record is left out.

    Raises:
        InputError: a record in the middle is damaged, or the file cannot be read.
    """
    try:
        with open_regular(path) as file:
            yield from _read_blocks(file, path)
    except OSError as error:
        raise InputError(
            f"Expected a readable file, but {path} cannot be read ({error.strerror}): check its "
            "permissions.",
            code="system",
        ) from None


def _read_blocks(file: BinaryIO, path: Path) -> Iterator[Block | Ending]:
    size = os.fstat(file.fileno()).st_size  # what is written meanwhile is for the next reading
    checks = _LengthChecks()
    offset, passed_over, records, wanted = 0, 0, 0, BLOCK
    while offset < size:
        file.seek(offset)
        data = file.read(min(wanted, size - offset))
        starts, lengths, end = _walk(data, checks)
        block = Block(data, np.array(starts, np.int64), np.array(lengths, np.int64), offset)
        damaged = _first_damaged(block)
        if damaged is not None:
            start = starts[damaged] - _HEADER.size
            behind = starts[damaged] + lengths[damaged] + 4
            block = Block(data, block.starts[:damaged], block.lengths[:damaged], offset)
            yield block
            _refuse_damage(file, path, offset + start, offset + behind, records + damaged)
            yield Ending(offset + start, passed_over)
            return
        if starts:
            yield block
        records += len(starts)
        offset += end
        wanted = BLOCK
        if len(data) - end >= _HEADER.size:
            length, check = _HEADER.unpack_from(data, end)
            if check != checks[length]:
                _refuse_damage(file, path, offset, offset + _HEADER.size, records)
                yield Ending(offset, passed_over)
                return
            if offset + _AROUND + length > size:
                break
            if length > LARGEST_RECORD:
                offset += _AROUND + length
                passed_over += 1
            else:
                wanted = max(BLOCK, _AROUND + length)
        elif offset + len(data) - end >= size:
            break
    yield Ending(None if offset == size else offset, passed_over)


def _walk(data: bytes, checks: _LengthChecks) -> tuple[list[int], list[int], int]:
    """Starts and lengths of the whole records in ``data``, and where the next one starts."""
    starts: list[int] = []
    lengths: list[int] = []
    position, size, last_header = 0, len(data), len(data) - _HEADER.size
    unpack = _HEADER.unpack_from
    while position <= last_header:
        length, check = unpack(data, position)
        after = position + _AROUND + length
        if after > size or check != checks[length]:
            break
        starts.append(position + _HEADER.size)
        lengths.append(length)
        position = after
    return starts, lengths, position


def _first_damaged(block: Block) -> int | None:
    """The first record whose data do not have their checksum."""
    data = np.frombuffer(block.data, np.uint8)
    order = np.argsort(block.lengths, kind="stable")
    cuts = np.flatnonzero(np.diff(block.lengths[order])) + 1
    damaged: list[int] = []
    for members in np.split(order, cuts) if len(order) else ():
        length = int(block.lengths[members[0]])
        if len(members) == 1:  # a view: a record may be large
            first = int(block.starts[members[0]])
            rows = data[None, first : first + length + 4]
        else:
            rows = data[block.starts[members, None] + np.arange(length + 4)]
        stored = np.ascontiguousarray(rows[:, length:]).view("<u4")[:, 0]
        wrong = np.flatnonzero(masked_rows(rows[:, :length]) != stored)
        if len(wrong):
            damaged.append(int(members[wrong].min()))
    return min(damaged, default=None)


def _refuse_damage(file: BinaryIO, path: Path, start: int, behind: int, whole: int) -> None:
    """Refuse a damaged record, unless nothing but zeros follows it."""
    file.seek(behind)
    while chunk := file.read(BLOCK):
        if chunk.count(0) != len(chunk):
            raise InputError(
                f"Expected whole records in {path}, but the record at byte {start} is damaged "
                f"(its checksum differs), after {whole} whole ones: copy the file again from where "
                f"it was written. To use only what stands before the damage, cut a copy there "
                f"(`head -c {start}`).",
                code="format",
            )
