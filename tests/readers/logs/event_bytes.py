"""Event files byte by byte, written for tests without the code under test."""

from __future__ import annotations

import struct


def crc32c(message: bytes) -> int:
    """The checksum, bit by bit, from its definition."""
    register = 0xFFFFFFFF
    for byte in message:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


def masked(message: bytes) -> bytes:
    check = crc32c(message)
    return struct.pack("<I", ((check >> 15 | check << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def span(number: int, data: bytes) -> bytes:
    """A field that holds text or a message."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def event(wall_time: float, step: int, what: bytes) -> bytes:
    at = b"\x10" + varint(step) if step else b""
    return record(b"\x09" + struct.pack("<d", wall_time) + at + what)


def version(wall_time: float = 1.0) -> bytes:
    return event(wall_time, 0, span(3, b"brain.Event:2"))


def simple(tag: bytes, value: float) -> bytes:
    """A Summary.Value as torch writes it."""
    return span(1, span(1, tag) + b"\x15" + struct.pack("<f", value))


def tensor(tag: bytes, fields: bytes, plugin: bytes = b"scalars") -> bytes:
    """A Summary.Value as TensorFlow 2 writes it."""
    return span(1, span(1, tag) + span(8, fields) + span(9, span(1, span(1, plugin))))


def scalar(step: int, tag: str, value: float, wall_time: float = 2.0) -> bytes:
    return event(wall_time, step, span(5, simple(tag.encode(), value)))
