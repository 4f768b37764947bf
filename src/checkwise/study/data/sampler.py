"""Endless minibatches per domain, drawn with replacement and resumable to the bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]

# Part of the stream's definition, like the seed: changing it changes every draw.
BLOCK = 64


class MinibatchSampler:
    """Draws one minibatch of row indices per domain and update, with replacement.

    ``pools[d]`` holds the rows of domain ``d`` that may be drawn (its `in` split). Every domain has
    its own stream, a function of ``(seed, position of the domain, number of batches drawn)`` alone:
    the whole state is one counter, and domains neither share nor disturb each other's draws.
    The legacy generator is used because NumPy promises never to change its stream.

    Example:
        >>> sampler = MinibatchSampler([np.arange(5), np.arange(9)], batch_size=3, seed=0)
        >>> state = sampler.state()
        >>> first = sampler.next()
        >>> sampler.set_state(state)
        >>> all((a == b).all() for a, b in zip(first, sampler.next()))
        True
    """

    def __init__(self, pools: Sequence[Indices], *, batch_size: int, seed: int) -> None:
        self._pools = [np.asarray(pool, dtype=np.int64) for pool in pools]
        self._batch_size = batch_size
        self._seed = seed
        self._drawn = 0
        self._blocks: dict[int, list[tuple[Indices, ...]]] = {}  # the one in use

    def next(self) -> tuple[Indices, ...]:
        """Return the next minibatch: one read-only array of ``batch_size`` rows per domain."""
        block, offset = divmod(self._drawn, BLOCK)
        if block not in self._blocks:
            self._blocks = {block: self._draw(block)}
        self._drawn += 1
        return self._blocks[block][offset]

    def state(self) -> dict[str, int]:
        """Return what ``set_state`` needs to continue exactly here; plain JSON."""
        return {"drawn": self._drawn}

    def set_state(self, state: Mapping[str, int]) -> None:
        """Continue where ``state`` of a sampler of the same pools, size and seed was taken."""
        self._drawn = state["drawn"]

    def _draw(self, block_index: int) -> list[tuple[Indices, ...]]:
        streams = []
        for position, pool in enumerate(self._pools):
            entropy = np.random.SeedSequence([self._seed, position, block_index])
            random = np.random.RandomState(np.random.MT19937(entropy))
            drawn = random.randint(0, len(pool), size=(BLOCK, self._batch_size), dtype=np.int64)
            rows = pool[drawn]
            rows.flags.writeable = False
            streams.append(rows)
        return list(zip(*streams, strict=True))
