"""A frozen backbone in child processes with one thread each.

On a CPU, single-threaded processes are several times faster than one process with many threads.
Children are plain subprocesses rather than ``multiprocessing`` ones: their environment has to be
set before they start, and a caller's script need not be importable.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.predict import ONE_THREAD, Child
from checkwise.study.data import DomainDataset, Extract, Progress, frozen_features
from checkwise.study.train.backbone import Backbone, frozen_part
from checkwise.study.train.config import NetworkConfig, Tune
from checkwise.study.train.networks import build_backbone


@contextmanager
def child_processes(backbone: str, tune: Tune) -> Iterator[Extract]:
    """Yield a function from images to features; a child starts for each thread that calls it."""
    children: list[Child] = []
    idle: SimpleQueue[Child] = SimpleQueue()

    def extract(images: NDArray[Any]) -> NDArray[Any]:
        try:
            child = idle.get_nowait()
        except Empty:
            environment = {**os.environ, **ONE_THREAD}
            child = Child("-m", "checkwise.study.train.extract", env=environment)
            children.append(child)
            with suppress(BrokenPipeError):  # the first batch reports why the child ended
                _send(child, (sys.path, backbone, tune))
        try:
            _send(child, np.array(images))
            features: NDArray[Any] = pickle.load(child.replies)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            code = child.process.wait(timeout=60)
            raise InputError(
                f"Expected features from the backbone {backbone!r}, but its process ended with: "
                f"{child.last_line() or 'no message'} (exit code {code}): build the backbone in "
                "Python to see it fail, with "
                f"checkwise.study.train.networks.build_backbone({backbone!r}).",
                code="system",
            ) from error
        finally:
            idle.put(child)
        return features

    try:
        yield extract
    finally:
        for child in children:
            child.process.kill()
            child.close()


def _send(child: Child, message: object) -> None:
    pickle.dump(message, child.to, pickle.HIGHEST_PROTOCOL)
    child.to.flush()


@cache
def backbone_named(name: str) -> Backbone:
    return build_backbone(name)


@cache
def extractor(
    name: str, tune: Tune, device: str
) -> Callable[[NDArray[np.uint8]], NDArray[np.float32]]:
    """A function from images to the outputs of the frozen part."""
    backbone = backbone_named(name)
    module = frozen_part(backbone, tune).module
    assert module is not None
    module = module.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]

    def extract(images: NDArray[np.uint8]) -> NDArray[np.float32]:
        with torch.inference_mode():
            pixels = torch.from_numpy(np.array(images)).permute(0, 3, 1, 2)
            features: Any = module(backbone.normalise(pixels.to(device)))
        rows: NDArray[np.float32] = features.float().cpu().numpy()
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
    name, tune = network.backbone, network.tune
    frozen_part(backbone_named(name), tune)  # refuses before a child would
    with ExitStack() as stack:
        width = 1
        if device == "cpu":  # a child process for each core
            width = os.cpu_count() or 1
            extract = stack.enter_context(child_processes(name, tune))
        else:

            def extract(images: NDArray[Any]) -> NDArray[Any]:
                return extractor(name, tune, device)(images)

        return frozen_features(
            dataset,
            f"{name} {tune} {weights_hash(name)}",
            extract,
            width=width,
            dtype=np.float32 if tune == "head" else np.float16,
            progress=progress,
        )


@cache
def weights_hash(name: str) -> str:
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
    with os.fdopen(os.dup(1), "wb") as results:
        os.dup2(2, 1)
        sys.path[:], name, tune = pickle.load(sys.stdin.buffer)
        torch.set_num_threads(1)
        extract = extractor(name, tune, "cpu")
        with suppress(EOFError):
            while True:
                pickle.dump(extract(pickle.load(sys.stdin.buffer)), results)
                results.flush()


if __name__ == "__main__":
    main()
