"""What each single run does to a mean difference, and which runs carry it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkwise.records import RunKey

FloatArray = NDArray[np.float64]

# Leaving a run out moves a mean of well-behaved values by far less than its standard error.
NOTABLE = 0.5


@dataclass(frozen=True)
class Influence:
    """One run left out.

    Args:
        run: which.
        value: its own difference.
        mean: over all runs.
        without: the mean of the others.
        moved: ``without`` − ``mean``, in standard errors of the mean over all runs.
        sign_changes: whether the others' mean has the opposite sign.
    """

    run: RunKey
    value: float
    mean: float
    without: float
    moved: float
    sign_changes: bool

    @property
    def notable(self) -> bool:
        """Whether the conclusion leans on this run."""
        return self.sign_changes or abs(self.moved) >= NOTABLE


def influence(keys: Sequence[RunKey], values: FloatArray) -> list[Influence]:
    """Leave out every run in turn; the most influential first.

    Example:
        >>> keys = [RunKey("PACS", "ERM", ("art",), 0, t) for t in range(4)]
        >>> first = influence(keys, np.array([0.1, -8.0, 0.1, 0.1]))[0]
        >>> str(first.run), round(first.mean, 3), round(first.without, 3), first.sign_changes
        ('PACS-ERM-art-h0-t1', -1.925, 0.1, True)
    """
    x = np.asarray(values, dtype=np.float64)
    n = len(x)
    if n < 2:
        return []
    mean = float(x.mean())
    without = (x.sum() - x) / (n - 1)
    error = float(x.std(ddof=1)) / np.sqrt(n)
    moved = without - mean
    order = np.argsort(-np.abs(moved), kind="stable")
    return [
        Influence(
            run=keys[i],
            value=float(x[i]),
            mean=mean,
            without=float(without[i]),
            moved=float(moved[i] / error) if error > 0 else 0.0,
            sign_changes=bool(without[i] * mean < 0),
        )
        for i in order.tolist()
    ]
