"""What reading and sampling cost: ``python benchmarks/data.py [IMAGE_FOLDER]``.

Without a folder only what needs no data is measured. The decoded images go to a cache of their own
that is removed at the end.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from checkwise.study.data import MinibatchSampler, augment, open_dataset, split

Result = TypeVar("Result")


def timed(what: str, work: Callable[[], Result], *, times: int = 1) -> Result:
    """Print the time per call of ``work`` and the process's peak memory, and return its result."""
    started = time.perf_counter()
    for _ in range(times):
        result = work()
    seconds = (time.perf_counter() - started) / times
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{what:48s} {seconds * 1e3:12.3f} ms   peak {peak:.2f} GB")
    return result


def main() -> None:
    """Measure."""
    timed("RotatedMNIST", lambda: open_dataset("RotatedMNIST"))
    timed("ColoredMNIST, digits read", lambda: open_dataset("ColoredMNIST"))
    pools = [split(n, domain_index=i, trial_seed=0)[0] for i, n in enumerate((2048, 2344, 1670))]
    sampler = MinibatchSampler(pools, batch_size=32, seed=0)
    timed("minibatch indices of three domains", sampler.next, times=5001)
    if len(sys.argv) < 2:
        return
    with tempfile.TemporaryDirectory() as cache:
        root = sys.argv[1]
        os.environ["CHECKWISE_CACHE"] = cache
        timed("image folder, first time", lambda: open_dataset("ImageFolder", root))
        data = timed("image folder, cached", lambda: open_dataset("ImageFolder", root))
        random = np.random.default_rng(0)
        rows = random.integers(data.sizes[0], size=32)
        batch = timed("minibatch of 32 images", lambda: data.rows(0, rows), times=50)
        timed("augmenting 32 images", lambda: augment(batch, random))
        timed("all images once, 64 at a time", lambda: read_all(data.x))


def read_all(x: tuple[np.ndarray[tuple[int, ...], np.dtype[np.uint8]], ...]) -> int:
    """Touch every image, as an evaluation does."""
    return sum(int(part[i : i + 64].max()) for part in x for i in range(0, len(part), 64))


if __name__ == "__main__":
    main()
