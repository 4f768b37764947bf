"""Arrays through a pipe between two processes of this package: a length, a header, the bytes."""

from __future__ import annotations

import json
import struct
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray


def send(pipe: IO[bytes], content: bytes) -> None:
    """Write one message."""
    pipe.write(struct.pack("<Q", len(content)))
    pipe.write(content)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes:
    """Read one message; EOFError where the other side has gone."""
    (length,) = struct.unpack("<Q", _exactly(pipe, 8))
    return _exactly(pipe, length)


def send_array(pipe: IO[bytes], array: NDArray[Any]) -> None:
    """Write an array as two messages."""
    send(pipe, json.dumps({"dtype": array.dtype.str, "shape": array.shape}).encode())
    send(pipe, np.ascontiguousarray(array).tobytes())


def receive_array(pipe: IO[bytes]) -> NDArray[Any]:
    """Read an array, writable."""
    header = json.loads(receive(pipe))
    content = bytearray(receive(pipe))
    return np.frombuffer(content, dtype=np.dtype(header["dtype"])).reshape(header["shape"])


def _exactly(pipe: IO[bytes], length: int) -> bytes:
    content = pipe.read(length)
    if len(content) < length:
        raise EOFError(f"{len(content)} of {length} bytes came")
    return content
