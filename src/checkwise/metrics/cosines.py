"""Compiled sums of cosines behind the smooth calibration error."""

from __future__ import annotations

from math import pi

import numpy as np
from numpy.typing import NDArray

from checkwise.metrics.compiling import entry

FloatArray = NDArray[np.float64]


@entry
def add_waves(confidence: FloatArray, residual: FloatArray, waves: FloatArray) -> None:
    """cos((k + 1)θ) = 2 cos θ cos kθ − cos((k − 1)θ), restarted now and then to stay exact."""
    for i in range(len(confidence)):
        angle, r = pi * confidence[i], residual[i]
        twice = 2.0 * np.cos(angle)
        for start in range(0, len(waves), 64):
            before, now = np.cos((start - 1) * angle), np.cos(start * angle)
            for k in range(start, min(start + 64, len(waves))):
                waves[k] += r * now
                before, now = now, twice * now - before
