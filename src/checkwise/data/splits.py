"""Which examples of a domain are trained on (`in`) and which are held out (`out`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from checkwise.data.seeds import seed_hash
from checkwise.errors import InputError

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
