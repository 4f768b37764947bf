"""Probabilities as an array, for whoever needs them all; the kernels never hold them at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def probabilities(logits: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Softmax of every row of ``logits`` [n, C], in double precision.

    Example:
        >>> probabilities(np.log([[0.75, 0.25]])).round(6)
        array([[0.75, 0.25]])
    """
    z = np.asarray(logits, dtype=np.float64)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))
