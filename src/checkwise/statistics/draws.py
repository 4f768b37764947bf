"""How often each example is drawn in every resample of a validation set.

Sums over a resample are then products of these counts with one number per example.
"""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.metrics import whole

Counts = NDArray[np.uint8]
IntArray = NDArray[np.int64]

TOGETHER: Final = 1000  # resamples that share a stream of random numbers


def resampled_counts(
    n: int,
    resamples: int,
    *,
    seed: int,
    name: str = "",
    groups: IntArray | None = None,
    first: int = 0,
) -> Counts:
    """Counts [resamples, n] of examples drawn with replacement, as many as there are.

    Args:
        n: number of examples.
        resamples, seed: how many resamples, and the seed of their draws.
        name: of the domain: domains are drawn independently, in whatever order they come.
        groups: [n], the independent units. Whole groups are drawn, as many as there are, so the
            number of examples varies from draw to draw.
        first: the number of the first resample, a multiple of ``TOGETHER``.

    Example:
        >>> counts = resampled_counts(5, 3, seed=0)
        >>> counts.shape, counts.sum(axis=1).tolist()
        ((3, 5), [5, 5, 5])
        >>> one = resampled_counts(4, 1, seed=0, groups=np.array([7, 7, 8, 8]))[0]
        >>> bool(one[0] == one[1]), bool(one[2] == one[3])
        (True, True)
    """
    member, units = None, n
    if groups is not None:
        names, member = np.unique(np.asarray(groups), return_inverse=True)
        units = len(names)
    parts = []
    for start in range(first, first + resamples, TOGETHER):
        size = min(TOGETHER, first + resamples - start)
        random = np.random.default_rng(stream_seed(seed, name, start))
        rows = random.integers(0, units, (size, units), dtype=np.int32)
        flat = rows.astype(np.int64) + units * np.arange(size)[:, None]
        drawn = np.bincount(flat.ravel(), minlength=size * units).reshape(size, units)
        if drawn.max() > np.iinfo(np.uint8).max:  # 1 on average
            raise InputError(
                f"Expected no example more than 255 times in a resample, but seed {seed} draws "
                f"one {drawn.max()} times: use another seed.",
                code="unsupported",
            )
        parts.append(drawn.astype(np.uint8))
    counts = np.concatenate(parts)
    return counts if member is None else np.ascontiguousarray(counts[:, member])


def stream_seed(seed: int, name: str, start: int = 0) -> int:
    """One stream per domain and block of resamples, whatever the order of domains."""
    whole(seed, "seed", least=0)
    return int.from_bytes(hashlib.sha256(f"{int(seed)}|{name}|{start}".encode()).digest()[:8])
