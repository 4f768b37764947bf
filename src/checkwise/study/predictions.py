"""Held-out logits of a checkpoint, for curves and diagrams."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from checkwise.metrics.examples import PerExample, per_example
from checkwise.metrics.probabilities import probabilities
from checkwise.store import heldout
from checkwise.study.targets import Targets

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Predictions:
    """Logits [n, C] and labels [n] of one checkpoint on one domain."""

    step: int
    domain: str
    logits: NDArray[np.float32]
    labels: NDArray[np.int64]

    @property
    def probabilities(self) -> FloatArray:
        """Softmax of the logits."""
        return probabilities(self.logits)

    @property
    def examples(self) -> PerExample:
        """Confidence, correctness and NLL of every example."""
        return per_example(logits=self.logits, labels=self.labels)


def has_heldout(folder: Path, domain: str, step: int) -> bool:
    """Whether the held-out logits of a step were saved."""
    return heldout.has_logits(folder, domain, step)


def read_heldout(folder: Path, domain: str, step: int) -> Predictions:
    """Held-out logits of one step."""
    logits, labels = Targets(folder, (domain,)).logits(domain, step)[domain]
    return Predictions(step, domain, logits, labels)
