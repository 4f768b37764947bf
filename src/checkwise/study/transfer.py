"""Does a better source value mean a better target value? The condition for it, after the fact.

Write target utility = ψ(source utility) + ε with ψ increasing. The source order of two checkpoints
is certain to hold on the target where ψ differs by more than ω, the range of ε. It takes target
results to compute, so it explains and never selects.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Transfer:
    """One metric over the checkpoints of one run.

    Args:
        fitted: ψ at every checkpoint, by least squares among non-decreasing functions. Where it is
            flat it is not strictly increasing, and no pair there meets the condition.
        omega: largest difference between two residuals.
        pairs: pairs of checkpoints whose source values differ.
        certain: pairs that meet the condition ψ(u_i) − ψ(u_j) > ω.
        kept: pairs that have the same order on the target.
    """

    fitted: FloatArray
    omega: float
    pairs: int
    certain: int
    kept: int


def transfer(source: FloatArray, target: FloatArray) -> Transfer:
    """Fit ψ and count the pairs; both are utilities [T], larger is better.

    Example:
        >>> found = transfer(np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.5, 0.9]))
        >>> found.omega, found.pairs, found.certain, found.kept
        (0.0, 3, 3, 3)
    """
    u, v = (np.asarray(values, dtype=np.float64) for values in (source, target))
    if u.shape != v.shape or u.ndim != 1 or not (np.isfinite(u).all() and np.isfinite(v).all()):
        raise InputError(
            f"Expected finite source and target values of the same checkpoints, but got shapes "
            f"{u.shape} and {v.shape}: leave diverged checkpoints out."
        )
    fitted = isotonic(u, v)
    residual = v - fitted
    omega = float(np.ptp(residual)) if len(u) else 0.0
    better = u[:, None] > u[None, :]
    certain = better & (fitted[:, None] - fitted[None, :] > omega)
    kept = better & (v[:, None] > v[None, :])
    return Transfer(fitted, omega, int(better.sum()), int(certain.sum()), int(kept.sum()))


def isotonic(x: FloatArray, y: FloatArray) -> FloatArray:
    """The non-decreasing function of x nearest to y in squares, at every x.

    Equal x share one value; neighbours that are out of order are averaged until none is left.

    >>> isotonic(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0]))
    array([1. , 2.5, 2.5])
    """
    distinct, of = np.unique(x, return_inverse=True)
    weight = np.bincount(of, minlength=len(distinct)).astype(np.float64)
    level = np.bincount(of, weights=y, minlength=len(distinct)) / weight
    blocks: list[tuple[float, float, int]] = []  # level, weight, how many distinct x
    for value, w in zip(level.tolist(), weight.tolist(), strict=True):
        count = 1
        while blocks and blocks[-1][0] >= value:
            before, heavy, many = blocks.pop()
            value = (before * heavy + value * w) / (heavy + w)
            w, count = w + heavy, count + many
        blocks.append((value, w, count))
    levels = np.concatenate([np.full(many, value) for value, _, many in blocks])
    return np.asarray(levels[of])
