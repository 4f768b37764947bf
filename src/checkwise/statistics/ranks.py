"""Rank correlations, and how far the order of checkpoints on the source holds on the target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError

FloatArray = NDArray[np.float64]
_ROUNDING = 1e-12  # below this a variable follows the one that is partialled out


def kendall(x: FloatArray, y: FloatArray) -> FloatArray:
    """Kendall's τ_b along the last axis; nan where either side is constant.

    Example:
        >>> kendall(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])).round(3)
        np.float64(0.333)
    """
    sx, sy = _signs(x), _signs(y)
    together = (sx * sy).sum(axis=(-2, -1), dtype=np.float64)
    untied = np.sqrt(
        (sx != 0).sum(axis=(-2, -1), dtype=np.float64)
        * (sy != 0).sum(axis=(-2, -1), dtype=np.float64)
    )
    with np.errstate(invalid="ignore"):
        return np.asarray(together / untied)[()]


def spearman(x: FloatArray, y: FloatArray) -> float:
    """Spearman's ρ with average ranks for ties; nan where either side is constant.

    Example:
        >>> spearman(np.array([1.0, 2.0, 2.0]), np.array([1.0, 3.0, 4.0])).__round__(3)
        0.866
    """
    rx, ry = (_ranks(values) for values in (x, y))
    rx, ry = rx - rx.mean(), ry - ry.mean()
    scale = np.sqrt((rx**2).sum() * (ry**2).sum())
    return float((rx * ry).sum() / scale) if scale > 0 else float("nan")


def partial_spearman(x: FloatArray, y: FloatArray, given: FloatArray) -> float:
    """Spearman's ρ of x and y with the ranks of ``given`` partialled out of both.

    (ρ_xy − ρ_xz ρ_yz) / √((1 − ρ_xz²)(1 − ρ_yz²)): how far x and y agree beyond what both owe to
    z. nan where a side is constant or follows z alone.

    Example:
        >>> x, y = np.array([2.0, 1.0, 4.0, 3.0]), np.array([1.0, 2.0, 4.0, 3.0])
        >>> partial_spearman(x, y, np.arange(4.0)).__round__(3), spearman(x, y).__round__(3)
        (0.667, 0.8)
    """
    xy, xz, yz = spearman(x, y), spearman(x, given), spearman(y, given)
    free = (1 - xz**2) * (1 - yz**2)
    return float((xy - xz * yz) / np.sqrt(free)) if free > _ROUNDING else float("nan")


@dataclass(frozen=True, eq=False)
class Transfer:
    """How well the order of T checkpoints by a source value predicts their order on the target.

    The target value is modelled as ψ(source value) + residual with ψ non-decreasing. Where
    ψ(u_i) − ψ(u_j) exceeds ω, the largest difference of two residuals, i must beat j on the target.

    Args:
        fitted: ψ at every checkpoint, by least squares.
        omega: ω.
        pairs: pairs of checkpoints whose source values differ.
        certain: pairs with ψ(u_i) − ψ(u_j) > ω.
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
        >>> carried = transfer(np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.5, 0.9]))
        >>> carried.omega, carried.pairs, carried.certain, carried.kept
        (0.0, 3, 3, 3)
    """
    u, v = (np.asarray(values, dtype=np.float64) for values in (source, target))
    if u.shape != v.shape or u.ndim != 1 or not (np.isfinite(u).all() and np.isfinite(v).all()):
        raise InputError(
            f"Expected finite source and target values of the same checkpoints, but got shapes "
            f"{u.shape} and {v.shape}: leave diverged checkpoints out."
        )
    fitted = isotonic(u, v)
    omega = float(np.ptp(v - fitted)) if len(u) else 0.0
    better = u[:, None] > u[None, :]
    certain = better & (fitted[:, None] - fitted[None, :] > omega)
    same_order = better & (v[:, None] > v[None, :])
    return Transfer(fitted, omega, int(better.sum()), int(certain.sum()), int(same_order.sum()))


def isotonic(x: FloatArray, y: FloatArray) -> FloatArray:
    """The non-decreasing function of x with the least squared distance to y, at every x.

    Equal x share one value; neighbours that are out of order are pooled until none are left.

    Example:
        >>> isotonic(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0]))
        array([1. , 2.5, 2.5])
    """
    distinct, of = np.unique(x, return_inverse=True)
    weight = np.bincount(of, minlength=len(distinct)).astype(np.float64)
    level = np.bincount(of, weights=y, minlength=len(distinct)) / weight
    pools: list[tuple[float, float, int]] = []  # level, weight, number of distinct x
    for value, w in zip(level.tolist(), weight.tolist(), strict=True):
        count = 1
        while pools and pools[-1][0] >= value:
            before, heavy, many = pools.pop()
            value = (before * heavy + value * w) / (heavy + w)
            w, count = w + heavy, count + many
        pools.append((value, w, count))
    levels = np.concatenate([np.full(count, value) for value, _, count in pools])
    return np.asarray(levels[of])


def _signs(values: FloatArray) -> NDArray[np.int8]:
    values = np.asarray(values, dtype=np.float64)
    first, second = values[..., :, None], values[..., None, :]
    return (first > second).astype(np.int8) - (first < second).astype(np.int8)


def _ranks(values: FloatArray) -> FloatArray:
    values = np.asarray(values, dtype=np.float64)
    below = (values[None, :] < values[:, None]).sum(axis=1)
    equal = (values[None, :] == values[:, None]).sum(axis=1)
    return np.asarray(below + (equal + 1) / 2)
