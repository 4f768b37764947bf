"""What the kernel adds to: sums over examples from which every metric follows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from checkwise.metrics.smooth import TERMS, padded

Array = np.ndarray[Any, np.dtype[Any]]

UNIT = 2.0**-36  # of masses, which are integers so that their sums have no order


class Sums(NamedTuple):
    """Everything the metrics need; all arrays are sums over examples, so merging is adding.

    C classes, B bins padded to Q, K power sums. Masses are integers in units of 2**-36.
    """

    brier: Array  # [1] squared errors, but for the squares of p <= tau
    support: Array  # [C] examples of each class
    correct: Array  # [C] of them correctly predicted
    nll: Array  # [C] their summed negative log-likelihood
    powers: Array  # [C, K] sums of p (p - q)^k, k = 0, 1, ..., over p <= tau
    small_mass: Array  # [C] sum of p <= tau
    soft: Array  # [C, 2, Q] sums of v and of v p over p > tau
    soft_label: Array  # [C, Q] sum of v [y = c]
    top_soft: Array  # [2, 2, Q] sums of w and of w u, over wrong and over correct predictions
    mass: Array  # [C, B] sum of p > tau in each hard bin
    labels: Array  # [C, B] number of labels
    top_mass: Array  # [B] sum of u in each hard bin
    top_correct: Array  # [B] number correctly predicted


def new_sums(classes: int, bins: int) -> Sums:
    """Zeros."""
    return Sums(
        brier=np.zeros(1),
        support=np.zeros(classes, dtype=np.int64),
        correct=np.zeros(classes, dtype=np.int64),
        nll=np.zeros(classes),
        powers=np.zeros((classes, TERMS)),
        small_mass=np.zeros(classes, dtype=np.int64),
        soft=np.zeros((classes, 2, padded(bins))),
        soft_label=np.zeros((classes, padded(bins))),
        top_soft=np.zeros((2, 2, padded(bins))),
        mass=np.zeros((classes, bins), dtype=np.int64),
        labels=np.zeros((classes, bins), dtype=np.int64),
        top_mass=np.zeros(bins, dtype=np.int64),
        top_correct=np.zeros(bins, dtype=np.int64),
    )
