"""From sums over examples to metrics: the formulas, in NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from checkwise.metrics.examples import CountedExamples
from checkwise.metrics.gaussians import CLAMP, Grid, new_grid
from checkwise.metrics.registry import NAMES
from checkwise.metrics.sums import Sums

Array = np.ndarray[Any, np.dtype[Any]]

_UNTHREADED = 1 << 18  # multiplications of a matrix product that BLAS does on one thread


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
    classes, grid = len(sums.support), new_grid(bins, bandwidth)
    absent = sums.support == 0
    examples = sums.support + 0.0
    examples[absent] = np.nan
    recall = sums.correct / examples
    weight, confidence, right = sums.top
    v, vp, v_label = _soft_sums(sums, grid)
    cwece = class_errors(v, v_label - vp) / classes
    mass = np.zeros((bins, classes))
    mass[0] = sums.small[0]
    np.add.at(mass, grid.bin_of(np.arange(sums.large.shape[3])), sums.large[0, 0].T)
    hard_cwece = sums.support * np.abs(sums.labels - mass.T).sum(axis=1) / n**2
    small_squares = grid.tau * (sums.small[1] + sums.small[0] / 2).sum()  # p = tau (x + 1/2)
    return Report(
        n=n,
        correct=correct,
        classes=classes,
        bins=bins,
        bandwidth=bandwidth,
        accuracy=correct / n,
        nll=float(sums.nll.sum() / n),
        brier=max(0.0, float(sums.brier[0] + small_squares)) / n,
        ece=float(bin_errors(weight, right - confidence).sum()) / n,
        cwece=float(cwece.sum()),
        hard_ece=float(np.abs(sums.top_hard[1] - sums.top_hard[0]).sum() / n),
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


def _soft_sums(sums: Sums, grid: Grid) -> tuple[Array, Array, Array]:
    """[C, B] each: sum of p g, of p^2 g, and of p g over the examples of the class."""
    classes, both = len(sums.support), 2 * grid.bins
    large = grid.large.reshape(-1, both)
    size = max(1, _UNTHREADED // large.size)
    moments = np.moveaxis(sums.large, 0, 2).reshape(2 * classes, -1)
    parts = [moments[i : i + size] @ large for i in range(0, 2 * classes, size)]
    of_all, of_label = np.concatenate(parts).reshape(2, classes, 2, grid.bins)
    of_all += np.einsum("kc,ksb->csb", sums.small, grid.small)
    return of_all[:, 0], of_all[:, 1], of_label[:, 0]


def bin_errors(weight: Array, gap: Array) -> Array:
    """W_b (a_b - u_b)^2 from W_b and W_b (a_b - u_b), every denominator at least 1e-8."""
    return np.asarray(weight * (gap / np.maximum(weight, CLAMP)) ** 2)


def class_errors(v: Array, gap: Array) -> Array:
    """sum_b V_b / sum_r V_r (y_b - p_b)^2 from V_b and V_b (y_b - p_b), over the last axis."""
    return np.asarray(bin_errors(v, gap).sum(axis=-1) / np.maximum(v.sum(axis=-1), CLAMP))
