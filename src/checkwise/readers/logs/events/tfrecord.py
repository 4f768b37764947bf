"""Records of a TFRecord file, in blocks of bounded size, every checksum compared.

A record is its length (8 bytes), the length's masked CRC-32C (4), its data and the data's (4).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.readers.logs.events.crc32c import masked, masked_rows
from checkwise.store.safe_read import open_regular

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
