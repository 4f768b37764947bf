"""From sums over examples to metrics: the formulas, in NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from checkwise.metrics.examples import CountedExamples
from checkwise.metrics.smooth import CLAMP, middle, small_series
from checkwise.metrics.sums import UNIT, Sums

Array = np.ndarray[Any, np.dtype[Any]]

NAMES = (
    "accuracy",
    "nll",
    "brier",
    "ece",
    "cwece",
    "hard_ece",
    "hard_cwece",
    "worst_class_accuracy",
)
MAIN = ("accuracy", "nll", "cwece")  # what the default rule looks at


@dataclass(frozen=True)
class Report:
    """Metrics of n predictions over C classes, as fractions (not times 100).

    Attributes:
        n: number of examples.
        correct: number predicted correctly; the first of equal maxima is the prediction.
        classes: C.
        bins, bandwidth: B and h of the calibration errors.
        accuracy: correct / n.
        nll: mean of -log p[y].
        brier: mean of sum_c (p_c - [y = c])^2.
        ece, cwece: Gaussian soft-bin squared gaps, top label and class-wise.
        hard_ece, hard_cwece: hard-bin absolute gaps, top label and class-wise.
        worst_class_accuracy: smallest recall among the classes present.
        per_class: arrays [C]. `count` examples of the class; `recall` and mean `nll` of them
            (NaN where absent); `cwece` and `hard_cwece` are the parts that sum to the metrics.
        examples: which examples were predicted correctly, where an accumulator kept that.
    """

    n: int
    correct: int
    classes: int
    bins: int
    bandwidth: float
    accuracy: float
    nll: float
    brier: float
    ece: float
    cwece: float
    hard_ece: float
    hard_cwece: float
    worst_class_accuracy: float
    per_class: Mapping[str, Array] = field(repr=False, compare=False)
    examples: CountedExamples | None = field(default=None, repr=False, compare=False)

    def values(self) -> dict[str, float]:
        """The eight metrics by name."""
        return {name: getattr(self, name) for name in NAMES}


def summarise(sums: Sums, *, bins: int, bandwidth: float) -> Report:
    """The report of everything that was added to `sums`."""
    n, correct = int(sums.support.sum()), int(sums.correct.sum())
    classes = len(sums.support)
    absent = sums.support == 0
    examples = sums.support + 0.0
    examples[absent] = np.nan
    recall = sums.correct / examples
    cwece = _soft_cwece(_class_sums(sums, bins, bandwidth), sums.soft_label[:, :bins]) / classes
    mass = sums.mass.copy()
    mass[:, 0] += sums.small_mass
    hard_cwece = sums.support * _hard_gap(sums.labels, mass) / n**2
    return Report(
        n=n,
        correct=correct,
        classes=classes,
        bins=bins,
        bandwidth=bandwidth,
        accuracy=correct / n,
        nll=float(sums.nll.sum() / n),
        brier=max(0.0, float(sums.brier[0] + _small_squares(sums, bins, bandwidth))) / n,
        ece=_soft_ece(*sums.top_soft[:, :, :bins]) / n,
        cwece=float(cwece.sum()),
        hard_ece=float(_hard_gap(sums.top_correct, sums.top_mass) / n),
        hard_cwece=float(hard_cwece.sum()),
        worst_class_accuracy=float(np.fmin.reduce(recall)),
        per_class={
            "count": sums.support.copy(),
            "recall": recall,
            "nll": sums.nll / examples,
            "cwece": cwece,
            "hard_cwece": hard_cwece,
        },
    )


def _small_squares(sums: Sums, bins: int, bandwidth: float) -> float:
    """The sum of p^2 = p (p - q) + q p over p <= tau."""
    powers = sums.powers[:, :2].sum(0)
    return float(powers[1] + middle(bins, bandwidth) * powers[0])


def _class_sums(sums: Sums, bins: int, bandwidth: float) -> Array:
    """[C, 2, B] sums of v and of v p, from the small and the large p."""
    series = small_series(bins, bandwidth)
    small = sums.powers @ series.reshape(len(series), -1)
    return np.asarray(small.reshape(-1, 2, bins) + sums.soft[:, :, :bins])


def _soft_ece(wrong: Array, right: Array) -> float:
    """sum_b W_b (a_b - u_b)^2, every denominator at least 1e-8."""
    weight, confidence = wrong + right
    gap = (right[0] - confidence) / np.maximum(weight, CLAMP)
    return float((weight * gap * gap).sum())


def _soft_cwece(sums: Array, labels: Array) -> Array:
    """[C] sum_b V_cb / sum_r V_cr (y_cb - p_cb)^2, every denominator at least 1e-8."""
    v, vp = sums[:, 0], sums[:, 1]
    gap = (labels - vp) / np.maximum(v, CLAMP)
    return np.asarray((v * gap * gap).sum(1) / np.maximum(v.sum(1), CLAMP))


def _hard_gap(labels: Array, mass: Array) -> Array:
    """Sum over bins of |B_b| |freq - conf|, in which the number |B_b| cancels."""
    return np.asarray(np.abs(labels - mass * UNIT).sum(-1))
