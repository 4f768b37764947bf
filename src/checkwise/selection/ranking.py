"""From scores to one checkpoint: the lexicographic order that every rule ends with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Ranking:
    """What a rule says about every checkpoint, [T] or [R, T].

    Args:
        score: smaller is better.
        eligible: the checkpoints that may be chosen.
        normalised: objective → value in [0, 1] within the feasible set, for rules that normalise.
    """

    score: FloatArray
    eligible: BoolArray
    normalised: Mapping[str, FloatArray] = field(default_factory=dict)

    def row(self, r: int) -> Ranking:
        """The part of one run of many."""
        return Ranking(
            self.score[r],
            self.eligible[r],
            {name: values[r] for name, values in self.normalised.items()},
        )


def choose(ranking: Ranking, order: IntArray, *, ties_by_accuracy: bool) -> NDArray[Any]:
    """Index of the lexicographically smallest (score, accuracy order, step), per run."""
    left = smallest(ranking.score, ranking.eligible)
    if ties_by_accuracy:
        left = smallest(order, left)
    return np.asarray(left.argmax(axis=-1))  # the first that is left: steps increase


def smallest(values: NDArray[Any], among: BoolArray) -> BoolArray:
    """Where ``values`` is smallest among the marked entries."""
    largest: Any = np.inf if values.dtype.kind == "f" else np.iinfo(values.dtype).max
    best = np.where(among, values, largest).min(axis=-1, keepdims=True)
    return np.asarray(among & (values == best))


def positions(ranking: Ranking, order: IntArray, *, ties_by_accuracy: bool) -> IntArray:
    """Rank of every checkpoint of one run, from 1; those not eligible follow, by accuracy."""
    score = np.where(ranking.eligible, ranking.score, 0.0)
    tie = np.where(ranking.eligible & (not ties_by_accuracy), 0, order)
    sequence = np.lexsort((tie, score, ~ranking.eligible))
    rank = np.empty(len(sequence), dtype=np.int64)
    rank[sequence] = np.arange(1, len(sequence) + 1)
    return rank
