"""A frozen backbone in child processes with one thread each.

On a CPU, single-threaded processes are several times faster than one process with many threads.
Children are plain subprocesses rather than ``multiprocessing`` ones: their environment has to be
set before they start, and a caller's script need not be importable.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from queue import SimpleQueue
from threading import Lock
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.predict import ONE_THREAD
from checkwise.study.data import DomainDataset, Extract, Progress, frozen_features
from checkwise.study.train.backbone import Backbone, frozen_part
from checkwise.study.train.config import NetworkConfig, Tune
from checkwise.study.train.networks import build_backbone


@contextmanager
def child_processes(backbone: str, tune: Tune, *, count: int) -> Iterator[Extract]:
    """Yield a function from images to features that ``count`` threads may call at once.

    The children start with the first batch and end with the context.
    """
    children: list[_Child] = []
    idle: SimpleQueue[_Child] = SimpleQueue()
    starting = Lock()

    def start() -> None:
        with starting:
            while len(children) < count:
                children.append(_Child(backbone, tune))
                idle.put(children[-1])

    def extract(images: NDArray[Any]) -> NDArray[Any]:
        start()
        child = idle.get()
        try:
            return child.extract(images)
        finally:
            idle.put(child)

    try:
        yield extract
    finally:
        for child in children:
            child.stop()


class _Child:
    """One child process; used by one thread at a time."""

    def __init__(self, backbone: str, tune: Tune) -> None:
        self._backbone = backbone
        with ExitStack() as stack:  # where the process cannot start, the log is closed
            self._log = stack.enter_context(tempfile.TemporaryFile())
            self._process = subprocess.Popen(
                [sys.executable, "-m", "checkwise.study.train.extract"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env={**os.environ, **ONE_THREAD},
            )
            stack.pop_all()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        job = {"backbone": backbone, "tune": tune, "path": sys.path}
        with suppress(BrokenPipeError):  # the first batch reports why the child ended
            send(self._to, json.dumps(job).encode())

    def extract(self, images: NDArray[Any]) -> NDArray[Any]:
        """Send a batch and wait for its features."""
        try:
            send_array(self._to, images)
            return receive_array(self._from)
        except (OSError, EOFError) as error:
            raise self._failure() from error

    def stop(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._process.wait()
        self._from.close()
        with suppress(BrokenPipeError):  # a batch that the dead child never read
            self._to.close()
        self._log.close()

    def _failure(self) -> InputError:
        code = self._process.wait(timeout=60)
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines() or ["no message"]
        return InputError(
            f"Expected features from the backbone {self._backbone!r}, but its process ended with: "
            f"{lines[-1]} (exit code {code}): build the backbone in Python to see it fail, with "
            f"checkwise.study.train.networks.build_backbone({self._backbone!r}).",
            code="system",
        )


def send(pipe: IO[bytes], content: bytes) -> None:
    """Write one message: its length, then its bytes."""
    pipe.write(struct.pack("<Q", len(content)))
    pipe.write(content)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes:
    """Read one message; EOFError if the other process has ended."""
    (length,) = struct.unpack("<Q", _exactly(pipe, 8))
    return _exactly(pipe, length)


def send_array(pipe: IO[bytes], array: NDArray[Any]) -> None:
    """Write an array as two messages: type and shape, then the values."""
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


Pixels = NDArray[np.uint8]
Features = NDArray[np.float32]


@cache
def backbone_named(name: str) -> Backbone:
    """A backbone, loaded once per process."""
    return build_backbone(name)


@cache
def extractor(name: str, tune: Tune, device: str) -> Callable[[Pixels], Features]:
    """A function from images to the outputs of the frozen part."""
    backbone = backbone_named(name)
    module = frozen_part(backbone, tune).module
    assert module is not None
    module = module.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]

    def extract(images: Pixels) -> Features:
        with torch.inference_mode():
            pixels = torch.from_numpy(np.array(images)).permute(0, 3, 1, 2)
            features: Any = module(backbone.normalise(pixels.to(device)))
        rows: Features = features.float().cpu().numpy()
        return rows

    return extract


def freeze(
    dataset: DomainDataset,
    network: NetworkConfig,
    *,
    device: str = "cpu",
    progress: Progress | None = None,
) -> DomainDataset:
    """The data set the network is trained on: its frozen part applied, once for all runs."""
    if network.kind != "backbone" or network.tune == "all":
        return dataset
    frozen_part(backbone_named(network.backbone), network.tune)  # refuses before a child would
    with _extraction(network, device) as (extract, width):
        return frozen_features(
            dataset,
            f"{network.backbone} {network.tune} {weights_hash(network.backbone)}",
            extract,
            width=width,
            dtype=np.float32 if network.tune == "head" else np.float16,
            progress=progress,
        )


@contextmanager
def _extraction(network: NetworkConfig, device: str) -> Iterator[tuple[Extract, int]]:
    """The extractor, and how many threads may call it: on a CPU, a child process for each core."""
    if device != "cpu":
        yield (lambda images: extractor(network.backbone, network.tune, device)(images)), 1
        return
    cores = os.cpu_count() or 1
    with child_processes(network.backbone, network.tune, count=cores) as extract:
        yield extract, cores


@cache
def weights_hash(name: str) -> str:
    """SHA-256 of a backbone's parameters and buffers."""
    backbone = backbone_named(name)
    digest = hashlib.sha256()
    for part in (backbone.stem, backbone.last_stage):
        for key, tensor in part.state_dict().items():
            digest.update(key.encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def main() -> None:
    """Serve batches until standard input ends; the first message names backbone and part."""
    # What a backbone prints must not land among the features.
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    job = json.loads(receive(sys.stdin.buffer))
    sys.path[:] = job["path"]
    torch.set_num_threads(1)
    extract = extractor(job["backbone"], job["tune"], "cpu")
    while True:
        try:
            batch = receive_array(sys.stdin.buffer)
        except EOFError:
            return
        send_array(results, extract(batch))


if __name__ == "__main__":
    main()
