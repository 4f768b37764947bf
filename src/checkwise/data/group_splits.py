"""Splits that keep groups whole: sites, patients, devices, whatever examples share.

Examples of one group resemble each other more than those of another: bursts of one camera, scans of
one patient. A split by examples puts some of them on both sides, so validation looks better than a
new group will. A split by groups does not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from checkwise.data.seeds import seed_hash
from checkwise.data.splits import check_holdout
from checkwise.errors import InputError

Indices = NDArray[np.int64]


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
