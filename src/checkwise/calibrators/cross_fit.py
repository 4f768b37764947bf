"""Calibrating examples with what was fitted on others: five folds within every domain.

An example's fold depends only on the number of examples of its domain and on their groups, so all
checkpoints of a run share the folds. Examples of one group (a site, a patient) are in one fold: a
fit to some of them would know something of the others.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from checkwise.calibrators.calibrator import LEAST_ERRORS, Calibrator, Fitted
from checkwise.calibrators.ts import TS
from checkwise.metrics import (
    FloatArray,
    Groups,
    IntArray,
    Logits,
    count_errors,
    nll_of,
    together,
    units_together,
)
from checkwise.statistics import LEVEL, SEED, bootstrap_interval, resampled_group_means

FOLDS = 5
FOLD_SEED = 20261116
RESAMPLES = 2_000


@dataclass(frozen=True)
class Change:
    """The mean change of the NLL over examples, with a bootstrap interval over them.

    ``groups`` is the number of groups where whole groups were resampled; else None.
    """

    mean: float
    low: float
    high: float
    n: int
    level: float = LEVEL
    groups: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; ``groups`` only where there are any."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def folds_of(n: int, groups: IntArray | None = None) -> IntArray:
    """The fold of every example of a domain, from 0 to 4, as equal in size as can be.

    Whole groups go to one fold: the largest first, each into the fold with the fewest examples.

    Example:
        >>> folds_of(6, np.array([7, 7, 7, 8, 9, 9])).tolist()
        [0, 0, 0, 2, 1, 1]
    """
    random = np.random.default_rng(FOLD_SEED)
    if groups is None:
        return random.permutation(n) % FOLDS
    _, member, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    shuffled = random.permutation(len(sizes))
    filled, fold = np.zeros(FOLDS, dtype=np.int64), np.empty(len(sizes), dtype=np.int64)
    for unit in shuffled[np.argsort(-sizes[shuffled], kind="stable")]:
        fold[unit] = filled.argmin()
        filled[fold[unit]] += sizes[unit]
    return np.asarray(fold[member.reshape(-1)])


def cross_fitted(
    logits: Logits,
    calibrator: Calibrator,
    *,
    force: bool = False,
    groups: Groups | None = None,
) -> dict[str, tuple[FloatArray, Any]]:
    """Every example's logits, calibrated by a fit to the examples of the other folds.

    What is refused on all examples is refused on every part of them, and nothing else: a part has
    fewer errors than the whole.
    """
    plain = {d: (np.asarray(z, dtype=np.float64), y) for d, (z, y) in logits.items()}
    if not force and calibrator.sharpens and count_errors(*together(logits)) < LEAST_ERRORS:
        return plain
    unit_of = groups or {}
    fold = {domain: folds_of(len(y), unit_of.get(domain)) for domain, (_, y) in logits.items()}
    parts = {domain: np.empty(z.shape) for domain, (z, _) in logits.items()}
    for k in range(FOLDS):
        rest: Any = {
            domain: (z[fold[domain] != k], y[fold[domain] != k])
            for domain, (z, y) in logits.items()
            if (fold[domain] != k).any()
        }
        if not rest:  # a single example or group has no others
            return plain
        fitted = calibrator.fit(rest, force=True)
        for domain, (z, _) in logits.items():
            here = fold[domain] == k
            if here.any():
                parts[domain][here] = fitted.apply(z[here])
    return {domain: (parts[domain], y) for domain, (_, y) in logits.items()}


def change_of(logits: Logits, fitted: Fitted, groups: Groups | None = None) -> Change:
    """What the calibrator does to the NLL of examples that it was not fitted on."""
    calibrated: Any = cross_fitted(logits, fitted.calibrator, force=fitted.forced, groups=groups)
    z, y = together(logits)
    return mean_change(nll_of(together(calibrated)[0], y) - nll_of(z, y), groups)


def mean_change(differences: FloatArray, groups: Groups | None = None) -> Change:
    """The mean of differences per example, and its percentile interval over examples or groups."""
    n = len(differences)
    mean = float(differences.mean())
    units = None if groups is None else units_together(groups)
    count = None if units is None else int(units.max()) + 1
    if (count or n) < 2 or not np.ptp(differences):
        return Change(mean, mean, mean, n, groups=count)
    if units is None:
        low, high = bootstrap_interval(differences[:, None], resamples=RESAMPLES, seed=SEED)
    else:
        drawn = resampled_group_means(differences[:, None], units, resamples=RESAMPLES, seed=SEED)
        tail = 100 * (1 - LEVEL) / 2
        low, high = np.percentile(drawn, [tail, 100 - tail], axis=0)
    return Change(mean, float(low[0]), float(high[0]), n, groups=count)


SMALL = 1_000  # validation examples below which the temperature is cross-fitted


def nll_after(logits: Logits, *, groups: Groups | None = None) -> dict[str, float]:
    """Mean NLL of every domain after one temperature, which is fitted on all domains together.

    Example:
        >>> import numpy as np
        >>> z, y = np.array([[8.0, 0.0]] * 2000), np.arange(2000) % 4 // 3
        >>> {domain: round(nll, 6) for domain, nll in nll_after({"val": (z, y)}).items()}
        {'val': 0.562335}
    """
    if sum(len(y) for _, y in logits.values()) < SMALL:
        after: Any = cross_fitted(logits, TS, force=True, groups=groups)
    else:
        fitted = TS.fit(logits, force=True)
        after = {domain: (fitted.apply(z), y) for domain, (z, y) in logits.items()}
    return {domain: float(nll_of(z, y).mean()) for domain, (z, y) in after.items()}
