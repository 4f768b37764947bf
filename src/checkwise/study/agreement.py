"""Rank agreement between source and target over the checkpoints of a run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def kendall(x: FloatArray, y: FloatArray) -> FloatArray:
    """Kendall's τ_b along the last axis; nan where either side is constant.

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

    >>> spearman(np.array([1.0, 2.0, 2.0]), np.array([1.0, 3.0, 4.0])).__round__(3)
    0.866
    """
    rx, ry = (_ranks(values) for values in (x, y))
    rx, ry = rx - rx.mean(), ry - ry.mean()
    scale = np.sqrt((rx**2).sum() * (ry**2).sum())
    return float((rx * ry).sum() / scale) if scale > 0 else float("nan")


def _signs(values: FloatArray) -> NDArray[np.int8]:
    values = np.asarray(values, dtype=np.float64)
    first, second = values[..., :, None], values[..., None, :]
    return (first > second).astype(np.int8) - (first < second).astype(np.int8)


def _ranks(values: FloatArray) -> FloatArray:
    values = np.asarray(values, dtype=np.float64)
    below = (values[None, :] < values[:, None]).sum(axis=1)
    equal = (values[None, :] == values[:, None]).sum(axis=1)
    return np.asarray(below + (equal + 1) / 2)
