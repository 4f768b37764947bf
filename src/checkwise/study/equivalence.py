"""Equivalence and non-inferiority: tests of "no worse than a margin", which the user names.

An interval that contains zero does not show that nothing changed. These do, or say they cannot.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.study.cluster_t import cluster_means
from checkwise.study.clusters import Clusters

FloatArray = NDArray[np.float64]

ALPHA = 0.05


@dataclass(frozen=True)
class Equivalence:
    """Two one-sided t-tests of one mean difference against ±margin.

    Args:
        margin: largest difference that would not matter, on the scale of the differences.
        n, clusters: runs and clusters; the tests have clusters − 1 degrees of freedom.
        mean, low, high: the difference and its 1 − 2α interval, which lies inside ±margin exactly
            when ``p_equivalent`` is at most α.
        p_equivalent: of |difference| ≥ margin.
        p_noninferior: of being worse by at least the margin.
        alpha: level of each test.
    """

    margin: float
    n: int
    clusters: int
    mean: float
    low: float
    high: float
    p_equivalent: float
    p_noninferior: float
    alpha: float

    @property
    def equivalent(self) -> bool:
        """Shown to differ by less than the margin."""
        return self.p_equivalent <= self.alpha

    @property
    def noninferior(self) -> bool:
        """Shown to be worse by less than the margin, if at all."""
        return self.p_noninferior <= self.alpha


def equivalence(
    values: FloatArray,
    groups: Clusters,
    margin: float,
    *,
    higher_is_better: bool,
    alpha: float = ALPHA,
) -> Equivalence:
    """Test the mean of ``values`` [n] against ±``margin``.

    Example:
        >>> from checkwise.study.clusters import numbered
        >>> found = equivalence(np.array([-0.1, 0.0, 0.1, 0.0]), numbered(range(4), "run"), 0.5,
        ...                     higher_is_better=True)
        >>> found.equivalent, found.noninferior
        (True, True)
    """
    if not margin > 0:
        raise InputError(
            f"Expected a margin above 0 (the largest difference that would not matter), but got "
            f"{margin}."
        )
    found = cluster_means(np.asarray(values, dtype=np.float64)[:, None], groups)
    low, high = found.interval(1 - 2 * alpha)
    above, below = (_sure(p) for p in (found.p_above(-margin), found.p_below(margin)))
    if found.error[0] == 0:  # no spread: the mean is all there is
        above, below = float(found.mean[0] <= -margin), float(found.mean[0] >= margin)
    return Equivalence(
        margin=margin,
        n=found.n,
        clusters=found.clusters,
        mean=float(found.mean[0]),
        low=float(low[0]),
        high=float(high[0]),
        p_equivalent=max(above, below),
        p_noninferior=above if higher_is_better else below,
        alpha=alpha,
    )


def _sure(p: FloatArray) -> float:
    """Nothing is shown where there is no p-value."""
    return 1.0 if np.isnan(p[0]) else float(p[0])
