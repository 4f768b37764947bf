"""Calibrating examples with what was fitted on others: five folds within every domain.

An example's fold depends only on the number of examples of its domain, so all checkpoints of a run
share the folds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from checkwise.calibrators.calibrator import LEAST_ERRORS, Calibrator, Fitted
from checkwise.calibrators.examples import (
    FloatArray,
    IntArray,
    Logits,
    count_errors,
    nll_of,
    together,
)
from checkwise.statistics.bootstrap import LEVEL, SEED, bootstrap_interval

FOLDS = 5
FOLD_SEED = 20261116
RESAMPLES = 2_000


@dataclass(frozen=True)
class Change:
    """The mean change of the NLL over examples, with a bootstrap interval over them."""

    mean: float
    low: float
    high: float
    n: int
    level: float = LEVEL


def folds_of(n: int) -> IntArray:
    """The fold of every example of a domain, from 0 to 4, as equal in size as can be."""
    return np.random.default_rng(FOLD_SEED).permutation(n) % FOLDS


def cross_fitted(
    logits: Logits, calibrator: Calibrator, *, force: bool = False
) -> dict[str, tuple[FloatArray, Any]]:
    """Every example's logits, calibrated by a fit to the examples of the other folds.

    What is refused on all examples is refused on every part of them, and nothing else: a part has
    fewer errors than the whole.
    """
    plain = {d: (np.asarray(z, dtype=np.float64), y) for d, (z, y) in logits.items()}
    if not force and calibrator.sharpens and count_errors(*together(logits)) < LEAST_ERRORS:
        return plain
    fold = {domain: folds_of(len(y)) for domain, (_, y) in logits.items()}
    parts = {domain: np.empty(z.shape) for domain, (z, _) in logits.items()}
    for k in range(FOLDS):
        rest: Any = {
            domain: (z[fold[domain] != k], y[fold[domain] != k])
            for domain, (z, y) in logits.items()
            if (fold[domain] != k).any()
        }
        if not rest:  # a single example has no others
            return plain
        fitted = calibrator.fit(rest, force=True)
        for domain, (z, _) in logits.items():
            here = fold[domain] == k
            if here.any():
                parts[domain][here] = fitted.apply(z[here])
    return {domain: (parts[domain], y) for domain, (_, y) in logits.items()}


def change_of(logits: Logits, fitted: Fitted) -> Change:
    """What the calibrator does to the NLL of examples that it was not fitted on."""
    calibrated: Any = cross_fitted(logits, fitted.calibrator, force=fitted.forced)
    z, y = together(logits)
    return mean_change(nll_of(together(calibrated)[0], y) - nll_of(z, y))


def mean_change(differences: FloatArray) -> Change:
    """The mean of differences per example, and its percentile interval."""
    n = len(differences)
    mean = float(differences.mean())
    if n < 2 or not np.ptp(differences):
        return Change(mean, mean, mean, n)
    low, high = bootstrap_interval(differences[:, None], resamples=RESAMPLES, seed=SEED)
    return Change(mean, float(low[0]), float(high[0]), n)
