"""A class-wise calibration error without the bias that few examples per bin bring.

A bin's observed frequency differs from its confidence by chance alone, so plain binned errors are
above zero for perfectly calibrated predictions. Kumar, Liang and Ma (2019) subtract an estimate of
that part from every squared gap.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from checkwise.metrics.probabilities import probabilities


def debiased_cwece(
    logits: NDArray[np.floating], labels: NDArray[np.integer], bins: int = 15
) -> float:
    """Squared gaps in hard bins ((b − 1)/B, b/B], less the variance of each bin's frequency.

    (1/C) Σ_c Σ_b |B_cb|/n ((ȳ_cb − p̄_cb)² − ȳ_cb (1 − ȳ_cb)/(|B_cb| − 1)), one class against the
    rest over all n examples. A bin with fewer than two examples gives 0. Can be negative.

    Args:
        logits: [n, C] raw scores.
        labels: [n] class indices.
        bins: B.

    Example:
        >>> round(debiased_cwece(np.log([[0.75, 0.25], [0.75, 0.25]]), np.array([0, 1])), 6)
        -0.1875
    """
    p = probabilities(logits)
    n, classes = p.shape
    bin_of = np.clip(np.ceil(bins * p).astype(np.int64) - 1, 0, bins - 1)
    cell = bin_of + bins * np.arange(classes)
    cells = bins * classes
    count = np.bincount(cell.ravel(), minlength=cells)
    mass = np.bincount(cell.ravel(), weights=p.ravel(), minlength=cells)
    seen = np.bincount(cell[np.arange(n), labels], minlength=cells)
    there = count > 1
    count, mass, seen = count[there], mass[there], seen[there]
    frequency = seen / count
    chance = frequency * (1 - frequency) / (count - 1)
    gaps = (frequency - mass / count) ** 2 - chance
    return float((count / n * gaps).sum() / classes)
