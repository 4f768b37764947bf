"""Samples of checkpoints that share their validation examples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from checkwise.statistics import Stratified


def drawn(
    seed: int,
    accuracy: Sequence[float],
    counts: Sequence[int],
    *,
    weights: Sequence[float] | None = None,
    groups: int | None = None,
) -> Stratified:
    """Right and wrong answers to examples that are as difficult for all checkpoints alike."""
    random = np.random.default_rng(seed)
    values, of = [], []
    for n in counts:
        difficulty = random.uniform(size=n)
        noise = random.normal(scale=0.1, size=(len(accuracy), n))
        values.append((difficulty + noise < np.asarray(accuracy)[:, None]).astype(float))
        of.append(random.integers(0, groups or n, n))
    shares = np.full(len(counts), 1 / len(counts)) if weights is None else np.asarray(weights)
    return Stratified(tuple(values), shares, tuple(of) if groups else None)
