"""How far source domains lie apart in feature space: MMD and CORAL distance, means over pairs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def mmd(domains: Sequence[FloatArray]) -> float:
    """The mean over pairs of domains of MMD² with a Gaussian kernel.

    k(x, y) = exp(−|x − y|² / (2·s²)) with s² half the median squared distance between two different
    rows of any domain, so that rescaling all features changes nothing. MMD² is the biased estimate
    mean k(X, X) + mean k(Y, Y) − 2·mean k(X, Y), which is never negative.

    Example:
        >>> near = np.array([[0.0], [1.0]])
        >>> mmd([near, near]), mmd([near, near + 5]) > mmd([near, near + 1])
        (0.0, True)
    """
    rows = np.concatenate(domains)
    squares = (rows**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares[None, :] - 2 * rows @ rows.T, 0.0)
    apart = distances[np.triu_indices(len(rows), k=1)]
    middle = float(np.median(apart)) or 1.0
    kernel = np.exp(-distances / middle)
    edges = np.cumsum([0, *(len(part) for part in domains)])
    means = np.array(
        [
            [kernel[a:b, c:d].mean() for c, d in pairwise(edges.tolist())]
            for a, b in pairwise(edges.tolist())
        ]
    )
    pairs = combinations(range(len(domains)), 2)
    return float(np.mean([means[i, i] + means[j, j] - 2 * means[i, j] for i, j in pairs]))


def coral(domains: Sequence[FloatArray]) -> float:
    """The mean over pairs of domains of |C_i − C_j|² / (4·d²).

    C is the covariance (divided by n − 1) of the d features, each first divided by its standard
    deviation over all domains, so that the size of the features does not decide.

    Example:
        >>> wide = np.array([[0.0], [2.0]])
        >>> coral([wide, wide]), coral([wide, 2 * wide]) > 0
        (0.0, True)
    """
    rows = np.concatenate(domains)
    spread = rows.std(axis=0)
    spread[spread == 0] = 1.0
    covariances = [np.atleast_2d(np.cov((part / spread).T)) for part in domains]
    width = rows.shape[1]
    pairs = combinations(covariances, 2)
    return float(np.mean([((a - b) ** 2).sum() / (4 * width**2) for a, b in pairs]))


DISCREPANCIES: Final = {"mmd": mmd, "coral": coral}
