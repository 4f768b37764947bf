"""A mean over places: every held-out place counts once, however many runs it has.

The places are the sample. So the interval says where the mean over many places *of the same kind*
lies, and ``new_place`` where the next single one is expected.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.statistics.bootstrap import LEVEL
from checkwise.statistics.clusters import ClusterMeans, Clusters, cluster_means, numbered

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PlaceMeans:
    """The means of G places, and what they say about other places.

    Args:
        by_place: [G] mean of the runs of each place.
        means: their mean with its standard error s / √G and G − 1 degrees of freedom.
    """

    by_place: FloatArray
    means: ClusterMeans

    @property
    def places(self) -> int:
        """How many places there are."""
        return len(self.by_place)

    @property
    def mean(self) -> float:
        """The mean over places."""
        return float(self.means.mean[0])

    @property
    def p(self) -> float:
        """Two-sided p-value of a mean of 0. Without any spread: 1 if all are 0, else 0."""
        if self.places < 2:
            return float("nan")
        if not self.means.error[0] > 0:
            return float(self.mean == 0)
        return float(self.means.p_value()[0])

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Ends of the t interval of the mean over places; nan with fewer than two."""
        low, high = self.means.interval(level)
        return float(low[0]), float(high[0])

    def new_place(self, level: float = LEVEL) -> tuple[float, float]:
        """Where the mean at one new place of the same kind is expected: m ± t·s·√(1 + 1/G).

        It holds if places are a random sample of a normal distribution, and the new one gets as
        many runs as these. nan with fewer than two places.
        """
        if not 0 < level < 1:
            raise InputError(f"Expected a `level` strictly between 0 and 1, but got {level}.")
        s = float(self.means.error[0]) * np.sqrt(self.places)
        half = self.means.quantile((1 + level) / 2) * s * np.sqrt(1 + 1 / max(self.places, 1))
        return self.mean - float(half), self.mean + float(half)


def over_places(values: FloatArray, groups: Clusters) -> PlaceMeans:
    """The mean of ``values`` [n] by place, and over places.

    Example:
        >>> found = over_places(np.array([1.0, 3.0, 5.0, 5.0, 2.0]), numbered("aabbc", "place"))
        >>> found.by_place, found.mean, tuple(round(end, 2) for end in found.new_place())
        (array([2., 5., 2.]), 3.0, (-5.61, 11.61))
    """
    column = np.asarray(values, dtype=np.float64)
    by_place = groups.sums(column) / groups.sizes
    alone = numbered(range(groups.count), groups.name)
    return PlaceMeans(by_place, cluster_means(by_place[:, None], alone))
