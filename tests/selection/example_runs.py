"""Runs with what every validation example said, for tests of tolerances."""

from __future__ import annotations

from typing import Any

import numpy as np

Outputs = dict[int, dict[str, Any]]


def outputs(
    seed: int,
    *,
    steps: int = 8,
    sizes: tuple[int, ...] = (20, 35),
    classes: int = 4,
    gain: float = 0.6,
    grouped: bool = False,
) -> Outputs:
    """Checkpoints that get better and share most of their errors."""
    rng = np.random.default_rng(seed)
    made: Outputs = {100 * t: {} for t in range(steps)}
    for e, n in enumerate(sizes):
        labels = rng.integers(0, classes, n)
        groups = rng.permutation(np.arange(n) % max(2, n // 4))
        shared = rng.normal(size=(n, classes))
        for t in range(steps):
            z = shared + rng.normal(scale=0.4, size=(n, classes))
            z[np.arange(n), labels] += gain * min(t, steps // 2) + rng.normal(scale=0.2)
            z *= 1 + 0.3 * t
            made[100 * t][f"d{e}"] = (z, labels, groups) if grouped else (z, labels)
    return made
