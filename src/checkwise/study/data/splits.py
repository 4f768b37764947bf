"""Seeds derived from names, so that a run's randomness depends on what it is and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from numbers import Integral

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError


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


Indices = NDArray[np.int64]


def split(
    n: int, *, domain_index: int, trial_seed: int, holdout: float = 0.2
) -> tuple[Indices, Indices]:
    """Return ``(in_indices, out_indices)`` of a domain with ``n`` examples.

    The keys 0..n-1 are shuffled with a seed that depends on the trial and the domain only;
    ``out`` is the first ``int(n * holdout)`` of them, ``in`` the rest, both in shuffled order.

    Example:
        >>> inside, out = split(2048, domain_index=0, trial_seed=0)
        >>> len(inside), len(out), out[:5].tolist()
        (1639, 409, [548, 677, 1997, 977, 1553])
    """
    check_holdout(holdout)
    held_out = int(n * holdout)
    if held_out < 1 or held_out >= n:
        raise InputError(
            f"Expected examples on both sides of the split, but got {n} examples with "
            f"holdout {holdout} in domain {domain_index}: add examples or change `holdout`.",
            code="empty",
        )
    keys = np.arange(n, dtype=np.int64)
    np.random.RandomState(seed_hash(trial_seed, domain_index)).shuffle(keys)
    return keys[held_out:], keys[:held_out]


def check_holdout(holdout: float) -> None:
    """Refuse a share that is none."""
    if not 0 < holdout < 1:
        raise InputError(
            f"Expected `holdout` between 0 and 1 (exclusive), but got {holdout} in split(): "
            "pass the share of examples to hold out, such as 0.2."
        )


def split_groups(
    groups: Indices, *, domain_index: int, trial_seed: int, holdout: float = 0.2
) -> tuple[Indices, Indices]:
    """Return ``(in_indices, out_indices)`` of a domain; no group is on both sides.

    ``groups`` [n] says which group every example belongs to. The groups are shuffled with a seed
    that depends on the trial and the domain only. Each in turn is held out if that brings the
    number of held-out examples nearer to ``int(n * holdout)``; so that number is off by at most
    half of a group. Where every group is more than twice as large as wanted, the smallest one is
    held out. Both sides are in the order of the rows.

    Example:
        >>> inside, out = split_groups(np.repeat(np.arange(10), 5), domain_index=0, trial_seed=0)
        >>> out.tolist()
        [25, 26, 27, 28, 29, 40, 41, 42, 43, 44]
    """
    check_holdout(holdout)
    names, sizes = np.unique(groups, return_counts=True)
    if len(names) < 2:
        raise InputError(
            f"Expected at least 2 groups to split, but got {len(names)} in domain {domain_index}: "
            'split this data set with split_by = "examples", or use other groups.',
            code="unsupported",
        )
    wanted = int(len(groups) * holdout)
    order = np.arange(len(names))
    np.random.RandomState(seed_hash(trial_seed, domain_index, "groups")).shuffle(order)
    held_out: list[int] = []
    taken = 0
    for group in order.tolist():
        size = int(sizes[group])
        if abs(taken + size - wanted) < abs(taken - wanted):
            held_out.append(group)
            taken += size
    if not held_out:
        held_out = [int(order[np.argmin(sizes[order])])]
    outside = np.isin(groups, names[held_out])
    if outside.all():
        raise InputError(
            f"Expected groups on both sides of the split, but all of domain {domain_index} are "
            f"held out with holdout {holdout}: lower `holdout`.",
            code="empty",
        )
    return np.flatnonzero(~outside), np.flatnonzero(outside)


def split_both(
    groups: Indices, *, domain_index: int, trial_seed: int, holdout: float = 0.2
) -> tuple[Indices, Indices, Indices]:
    """Return ``(in, out_examples, out_groups)``: two validation sets of one size.

    ``out_groups`` are whole groups, as ``split_groups`` holds them out. ``out_examples`` are
    equally many examples of the other groups, drawn at random; the rest is trained on.

    Example:
        >>> parts = split_both(np.repeat(np.arange(10), 5), domain_index=0, trial_seed=0)
        >>> [len(part) for part in parts]
        [30, 10, 10]
    """
    others, by_groups = split_groups(
        groups, domain_index=domain_index, trial_seed=trial_seed, holdout=holdout
    )
    if len(by_groups) >= len(others):
        raise InputError(
            f"Expected examples to train on, but the groups of domain {domain_index} that are held "
            f"out have {len(by_groups)} examples and the others {len(others)}: lower `holdout`, or "
            "use smaller groups.",
            code="empty",
        )
    keys = np.arange(len(others))
    np.random.RandomState(seed_hash(trial_seed, domain_index)).shuffle(keys)
    drawn = np.zeros(len(others), dtype=bool)
    drawn[keys[: len(by_groups)]] = True
    return others[~drawn], others[drawn], by_groups
