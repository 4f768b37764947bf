"""Clustered standard errors of a mean, as textbooks write them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np


def variance(values: np.ndarray, labels: Sequence[Hashable]) -> float:
    """CR1: the residuals of each cluster summed, squared and added up."""
    residuals = values - values.mean()
    sums = [sum(r for r, of in zip(residuals, labels, strict=True) if of == c) for c in {*labels}]
    G = len(sums)
    return float(G / (G - 1) * np.sum(np.square(sums)) / len(values) ** 2)


def two_way_error(
    values: np.ndarray, first: Sequence[Hashable], second: Sequence[Hashable]
) -> float:
    """By one line plus by the other minus by both, and at least the larger."""
    one, other = variance(values, first), variance(values, second)
    both = variance(values, list(zip(first, second, strict=True)))
    return float(np.sqrt(max(one + other - both, one, other)))
