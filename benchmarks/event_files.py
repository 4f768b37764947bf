"""Reading TensorBoard's event files, against TensorBoard's own reader on a tenth of them.

Each reading is a process of its own; times are those of the processor, memory is the peak above
what the process had after its imports.
"""

from __future__ import annotations

import resource
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import checkwise as cw
from benchmarks.rows import Row, show

TAGS = ("train/loss", "train/grad_norm", "train/learning_rate", "eval/loss", "eval/accuracy")
FIRST_STEP = 1 << 14  # steps of three bytes up to two million

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
CRC_32C = np.arange(256, dtype=np.uint32)  # the register after each byte
for _ in range(8):
    CRC_32C = (CRC_32C >> np.uint32(1)) ^ (CRC_32C & np.uint32(1)) * np.uint32(0x82F63B78)


def masked_rows(rows: Bytes) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """The masked CRC-32C of each row, as TensorFlow stores it."""
    register = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    for column in rows.T:
        register = CRC_32C[(register ^ column) & np.uint32(0xFF)] ^ (register >> np.uint32(8))
    register = ~register
    return ((register >> np.uint32(15)) | (register << np.uint32(17))) + np.uint32(0xA282EAD8)


def masked(message: bytes) -> int:
    return int(masked_rows(np.frombuffer(message, np.uint8)[None, :])[0])


def event(tag: str) -> bytes:
    """An event with nine bytes of zero for time, three for step and four for the value."""
    value = b"\x15\0\0\0\0"
    value = b"\x0a" + bytes([len(tag)]) + tag.encode() + value
    value = b"\x0a" + bytes([len(value)]) + value
    return b"\x09" + bytes(8) + b"\x10" + bytes(3) + b"\x2a" + bytes([len(value)]) + value


def records(tag: str, steps: Any, values: Any) -> Bytes:
    """One record a row."""
    data = np.tile(np.frombuffer(event(tag), np.uint8), (len(steps), 1))
    data[:, 1:9] = (1.7e9 + steps).astype("<f8").view(np.uint8).reshape(-1, 8)
    for place in range(3):
        data[:, 10 + place] = steps >> 7 * place & 127 | (128 if place < 2 else 0)
    data[:, -4:] = values.astype("<f4").view(np.uint8).reshape(-1, 4)
    length = struct.pack("<Q", data.shape[1])
    header = np.frombuffer(length + struct.pack("<I", masked(length)), np.uint8)
    checks = masked_rows(data).astype("<u4").view(np.uint8).reshape(-1, 4)
    return np.hstack([np.tile(header, (len(steps), 1)), data, checks])


def write_file(path: Path, size: int, *, batch: int = 20_000) -> int:
    """An event file of about ``size`` bytes; returns how many scalars it has."""
    version = b"\x09" + bytes(8) + b"\x1a\x0dbrain.Event:2"
    length = struct.pack("<Q", len(version))
    rng = np.random.default_rng(0)
    step, written = FIRST_STEP, 0
    with path.open("wb") as file:
        file.write(length + struct.pack("<I", masked(length)))
        file.write(version + struct.pack("<I", masked(version)))
        while file.tell() < size:
            steps = np.arange(step, step + batch)
            rows = [records(tag, steps, rng.random(batch)) for tag in TAGS]
            file.write(np.hstack(rows).tobytes())
            step, written = step + batch, written + batch * len(TAGS)
    return written


def read_by_checkwise(folder: Path) -> int:
    return 2 * len(cw.load(folder))


def read_by_tensorboard(folder: Path) -> int:
    from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator

    reader = EventAccumulator(str(folder), size_guidance={SCALARS: 0})
    reader.Reload()
    return len(reader.Scalars("eval/loss")) + len(reader.Scalars("eval/accuracy"))


READERS = {"checkwise": read_by_checkwise, "tensorboard": read_by_tensorboard}


def read(reader: str, folder: Path) -> None:
    """Print asked-for scalars, seconds and megabytes of one reading."""
    with tempfile.TemporaryDirectory() as name:  # imports are not measured
        write_file(Path(name) / "events.out.tfevents.0", 100, batch=1)
        READERS[reader](Path(name))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    scalars = READERS[reader](folder)
    seconds = time.process_time() - start
    print(scalars, seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


def in_new_process(reader: str, folder: Path, scalars: int) -> tuple[float, float]:
    command = [sys.executable, "-m", "benchmarks.event_files", reader, str(folder)]
    count, seconds, memory = subprocess.check_output(command, text=True).split()
    assert int(count) == scalars * 2 // len(TAGS)
    return float(seconds), float(memory)


def main() -> None:
    if sys.argv[1:]:
        read(sys.argv[1], Path(sys.argv[2]))
        return
    took: dict[str, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        for what, size, readers in (
            ("tenth", 10_000_000, ("checkwise", "tensorboard", "checkwise")),
            ("whole", 100_000_000, ("checkwise",)),
        ):
            folder = Path(name) / what
            folder.mkdir()
            scalars = write_file(folder / "events.out.tfevents.0", size)
            for reader in readers:
                key = f"{reader} {what}"
                took[key] = min(in_new_process(reader, folder, scalars), took.get(key, (1e9, 0)))
    ours, whole = took["checkwise tenth"], took["checkwise whole"]
    show(
        [
            Row(
                "TensorBoard's event files (10 MB)",
                "TensorBoard's own reader",
                took["tensorboard tenth"][0] / ours[0],
                0.5,
                at_least=True,
            ),
            Row("100 MB of them, per byte", "10 MB", whole[0] / 10 / ours[0], 1.2),
            Row("memory to read 100 MB of them", "–", whole[1], 500, unit="MB"),
        ]
    )


if __name__ == "__main__":
    main()
