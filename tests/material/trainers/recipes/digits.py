"""The data of every training: scikit-learn's handwritten digits, 1,797 images of 8 by 8.

Few of them are for training, so that the loss turns up again while the accuracy still holds: the
case in which the choice of a checkpoint matters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

TRAINING, VALIDATION = 240, 500


@dataclass(frozen=True)
class Part:
    """Images with 64 values in [0, 1], and their digits."""

    x: NDArray[np.float32]
    y: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.y)

    def where(self, mask: NDArray[np.bool_]) -> Part:
        """The examples that the mask marks."""
        return Part(self.x[mask], self.y[mask])


def digits() -> tuple[Part, Part, Part]:
    """Training, validation and test, always the same examples."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    x, y = (x[order] / 16).astype(np.float32), y[order].astype(np.int64)
    middle = TRAINING + VALIDATION
    return (
        Part(x[:TRAINING], y[:TRAINING]),
        Part(x[TRAINING:middle], y[TRAINING:middle]),
        Part(x[middle:], y[middle:]),
    )
