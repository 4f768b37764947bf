"""p-values corrected for multiple comparisons."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from checkwise.statistics.bootstrap import finite_table
from checkwise.statistics.clusters import Clusters
from checkwise.statistics.wild import TIE, flips

FloatArray = NDArray[np.float64]


def holm(p_values: FloatArray) -> FloatArray:
    """Holm's step-down correction; nan is left out of the count.

    Example:
        >>> holm(np.array([0.01, 0.04, 0.03])).round(3)
        array([0.03, 0.06, 0.06])
    """
    p = np.asarray(p_values, dtype=np.float64)
    corrected = np.full(p.shape, np.nan)
    order = np.argsort(p, kind="stable")[: int(np.isfinite(p).sum())]
    factors = np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(factors * p[order]))
    return corrected


def max_t(values: FloatArray, groups: Clusters) -> FloatArray:
    """p-values of mean = 0 for every column of ``values`` [n, K], corrected for the K columns.

    Single-step: the share of sign patterns, the same for all columns, under which the largest |t|
    of any column reaches the column's own. It knows how the columns move together, which Holm
    does not. A column without spread gets nan.
    """
    table = finite_table(values)
    if groups.count < 2:
        return np.full(table.shape[1], np.nan)
    t = np.stack([column.t(0.0) for column in flips(table, groups)], axis=1)
    none = np.isnan(t[0])
    largest = np.where(np.isnan(t), -np.inf, t).max(axis=1, keepdims=True)
    p = (largest >= np.where(none, np.inf, t[0]) * (1 - TIE)).mean(axis=0)
    return np.where(none, np.nan, p)
