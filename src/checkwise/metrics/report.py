"""From sums over examples to metrics: the formulas, in NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from checkwise.metrics.smooth import CLAMP, small_series

if TYPE_CHECKING:
    from checkwise.metrics.kernel import Sums

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

    def values(self) -> dict[str, float]:
        """The eight metrics by name."""
        return {name: getattr(self, name) for name in NAMES}


def summarise(sums: Sums, *, bins: int, bandwidth: float) -> Report:
    """The report of everything that was added to `sums`."""
    n, correct = int(sums.support.sum()), int(sums.correct.sum())
    classes = len(sums.support)
    present = sums.support > 0
    examples = np.where(present, sums.support, 1)
    recall = np.where(present, sums.correct / examples, np.nan)
    cwece = _soft_gap(*_class_sums(sums, bins, bandwidth)) / classes
    mass = sums.mass.copy()
    mass[:, 0] += sums.small_mass
    hard_cwece = sums.support / n * _hard_gap(sums.labels, mass) / n
    weight, conf = sums.top_soft[:, :, :bins].sum(0)
    right = sums.top_soft[1, 0, :bins]
    filled = np.maximum(weight, CLAMP)
    return Report(
        n=n,
        correct=correct,
        classes=classes,
        bins=bins,
        bandwidth=bandwidth,
        accuracy=correct / n,
        nll=float(sums.nll.sum() / n),
        brier=float(max(0.0, sums.brier[0] + sums.powers[:, 1].sum()) / n),
        ece=float((weight / n * ((right - conf) / filled) ** 2).sum()),
        cwece=float(cwece.sum()),
        hard_ece=float(_hard_gap(sums.top_correct, sums.top_mass) / n),
        hard_cwece=float(hard_cwece.sum()),
        worst_class_accuracy=float(recall[present].min()),
        per_class={
            "count": sums.support.copy(),
            "recall": recall,
            "nll": np.where(present, sums.nll / examples, np.nan),
            "cwece": cwece,
            "hard_cwece": hard_cwece,
        },
    )


def _class_sums(sums: Sums, bins: int, bandwidth: float) -> tuple[Array, Array, Array]:
    """V, sum of v p and sum of v [y = c], each [C, B]."""
    powers = sums.powers
    series = small_series(bins, bandwidth, powers.shape[1])
    v, vp = sums.soft[:, 0, :bins], sums.soft[:, 1, :bins]
    v, vp = v + powers @ series, vp + powers[:, 1:] @ series[:-1]
    return v, vp, sums.soft_label[:, :bins]


def _soft_gap(v: Array, vp: Array, vy: Array) -> Array:
    """[C] sum_b V_cb / sum_r V_cr (y_cb - p_cb)^2, every denominator at least 1e-8."""
    filled = np.maximum(v, CLAMP)
    share = v / np.maximum(v.sum(1, keepdims=True), CLAMP)
    return np.asarray((share * ((vy - vp) / filled) ** 2).sum(1))


def _hard_gap(labels: Array, mass: Array) -> Array:
    """Sum over bins of |B_b| |freq - conf|, in which the number |B_b| cancels."""
    from checkwise.metrics.kernel import UNIT  # loads numba, which importing metrics must not

    return np.asarray(np.abs(labels - mass * UNIT).sum(-1))
