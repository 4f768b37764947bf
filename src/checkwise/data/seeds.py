"""Seeds derived from names, so that a run's randomness depends on what it is and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from numbers import Integral


def seed_hash(*parts: object) -> int:
    """md5 of the printed tuple of `parts`, as an integer modulo 2³¹.

    NumPy integers count as the integers they hold: their printed form differs between versions.

    Example:
        >>> seed_hash(0, 0)
        894182419
    """
    printed = str(tuple(_plain(part) for part in parts))
    return int(hashlib.md5(printed.encode("utf-8"), usedforsecurity=False).hexdigest(), 16) % 2**31


def training_seed(
    dataset: str,
    algorithm: str,
    held_out: Sequence[int],
    *,
    hparams_seed: int,
    trial_seed: int,
) -> int:
    """The seed of initialisation, sampling and dropout of one run; `held_out` are domain indices.

    Example:
        >>> training_seed("PACS", "ERM", [0], hparams_seed=0, trial_seed=0)
        94828300
    """
    return seed_hash(dataset, algorithm, list(held_out), hparams_seed, trial_seed)


def shared_init_seed(dataset: str, algorithm: str, held_out: Sequence[int]) -> int:
    """The seed of the initial weights where runs with different seeds share them."""
    return seed_hash(dataset, algorithm, list(held_out), "init")


def draw_seed(dataset: str, algorithm: str, held_out: Sequence[str], draw: int) -> int:
    """The trial seed of one of several draws; other algorithms and held-out sets have others.

    Example:
        >>> draw_seed("PACS", "ERM", ["sketch"], 1)
        1470938037
    """
    return 1 + seed_hash(dataset, algorithm, list(held_out), "draw", draw) % (2**31 - 2)


def _plain(part: object) -> object:
    if isinstance(part, bool):
        return part
    if isinstance(part, Integral):
        return int(part)
    if isinstance(part, list):
        return [_plain(item) for item in part]
    if isinstance(part, tuple):
        return tuple(_plain(item) for item in part)
    return part
