"""Intervals by every unit that runs share: would it hold for new seeds, for new domains?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from checkwise.records import RunKey
from checkwise.study.bootstrap import LEVEL
from checkwise.study.cluster_t import ClusterMeans, cluster_means, two_way_means
from checkwise.study.clusters import clusters

FloatArray = NDArray[np.float64]

SEED_UNITS: Final = ("block", "draw", "trial")
DOMAIN_UNITS: Final = ("domain", "block_domain")
ENOUGH_GROUPS: Final = 3  # an interval over fewer groups says nothing


@dataclass(frozen=True)
class UnitInterval:
    """The cluster-t interval of a mean difference with one kind of group as the unit.

    Args:
        groups: how many groups there are.
        low, high: ends of the interval; nan below two groups.
        p: two-sided p-value of no difference; nan without any spread.
    """

    groups: int
    low: float
    high: float
    p: float

    @property
    def decides(self) -> bool:
        """Whether there are enough groups to say anything."""
        return self.groups >= ENOUGH_GROUPS

    @property
    def includes_zero(self) -> bool:
        """Whether no difference is within the interval."""
        return not (self.low > 0 or self.high < 0)


def unit_means(values: FloatArray, keys: Sequence[RunKey]) -> dict[str, ClusterMeans]:
    """Means of the columns of ``values`` [n, K] with standard errors by each unit.

    Example:
        >>> keys = [RunKey("PACS", "ERM", (d,), 0, t) for d in "abcd" for t in range(3)]
        >>> found = unit_means(np.arange(12.0).reshape(12, 1), keys)
        >>> {unit: means.clusters for unit, means in found.items()}
        {'block': 3, 'draw': 1, 'trial': 3, 'domain': 4, 'block_domain': 3}
    """
    groups = {unit: clusters(keys, unit) for unit in (*SEED_UNITS, "domain")}
    found = {unit: cluster_means(values, group) for unit, group in groups.items()}
    return {**found, "block_domain": two_way_means(values, groups["block"], groups["domain"])}


def unit_intervals(
    values: FloatArray, keys: Sequence[RunKey], level: float = LEVEL
) -> dict[str, UnitInterval]:
    """The interval of the mean of ``values`` [n] by each unit."""
    found = {}
    for unit, means in unit_means(values[:, None], keys).items():
        low, high = means.interval(level)
        p = means.p_value()
        found[unit] = UnitInterval(means.clusters, float(low[0]), float(high[0]), float(p[0]))
    return found
