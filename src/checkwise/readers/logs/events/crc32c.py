"""CRC-32C, the checksum of TensorFlow's records, of many records at once.

The checksum is linear: with the register at zero, that of a message is the exclusive or of one
table entry per byte, which depends on the byte and on how many bytes follow it. So records of equal
length are a matrix of bytes, and their checksums one look-up and one reduction.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

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
