"""Contrasts with runs of the same seeds as one unit: would they hold for new seeds?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from checkwise.study.bootstrap import LEVEL
from checkwise.study.cluster_t import cluster_means
from checkwise.study.clusters import clusters
from checkwise.study.paired import Contrast, Differences


def across_seeds(
    table: Differences, rows: Sequence[Contrast], level: float = LEVEL
) -> list[Contrast]:
    """The contrasts of ``table`` with cluster-t intervals over its groups of seeds."""
    found = []
    for row, values in zip(rows, table.values.T, strict=True):
        there = np.isfinite(values)
        keys = [key for key, kept in zip(table.keys, there.tolist(), strict=True) if kept]
        groups = clusters(keys, "block")
        low, high = cluster_means(values[there][:, None], groups).interval(level)
        found.append(
            replace(row, seed_groups=groups.count, seed_low=float(low[0]), seed_high=float(high[0]))
        )
    return found
