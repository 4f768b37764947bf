"""Compiled sums over resampled runs."""

from __future__ import annotations

from typing import Any, cast

import numba
import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

_LANES = 4  # columns summed together: their four additions do not wait for each other


@numba.njit(cache=True, nogil=True)
def _sum(drawn: NDArray[Any], values: FloatArray, out: FloatArray) -> None:
    for b in range(drawn.shape[0]):
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for j in range(drawn.shape[1]):
            i = drawn[b, j]
            s0 += values[i, 0]
            s1 += values[i, 1]
            s2 += values[i, 2]
            s3 += values[i, 3]
        out[b, 0], out[b, 1], out[b, 2], out[b, 3] = s0, s1, s2, s3


def resampled_sums(drawn: NDArray[Any], values: FloatArray) -> FloatArray:
    """Σ_j values[drawn[b, j]] for every resample b and column, [B, K]."""
    columns = values.shape[1]
    wide = np.zeros((len(values), -(-columns // _LANES) * _LANES))
    wide[:, :columns] = values
    total = np.empty((len(drawn), wide.shape[1]))
    for start in range(0, wide.shape[1], _LANES):
        part, out = wide[:, start : start + _LANES], np.empty((len(drawn), _LANES))
        cast(Any, _sum)(drawn, np.ascontiguousarray(part), out)
        total[:, start : start + _LANES] = out
    return total[:, :columns]
