"""Compiled counting of resampled runs."""

from __future__ import annotations

from typing import Any, cast

import numba
import numpy as np
from numpy.typing import NDArray


@numba.njit(cache=True, nogil=True)
def _count(drawn: NDArray[np.int32], counts: NDArray[np.uint16]) -> None:
    for b in range(drawn.shape[0]):
        for j in range(drawn.shape[1]):
            counts[b, drawn[b, j]] += 1


def counted(drawn: NDArray[np.int32], n: int) -> NDArray[np.uint16]:
    """How often each of n runs occurs in every row of ``drawn`` [B, n]."""
    counts = np.zeros((len(drawn), n), dtype=np.uint16)
    cast(Any, _count)(drawn, counts)
    return counts
