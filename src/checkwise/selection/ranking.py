"""What a rule says about every checkpoint, and the order that follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from checkwise.selection.standing import BoolArray, FloatArray, IntArray

# Which of exactly tied checkpoints is taken; "accuracy": the one with the better constraint.
Ties: TypeAlias = Literal["earliest", "latest", "accuracy"]


@dataclass(frozen=True)
class Ranking:
    """What a rule says about every checkpoint, [T] or [R, T].

    Args:
        score: smaller is better.
        eligible: the checkpoints that the rule may choose.
        normalised: objective → value in [0, 1] over the feasible set, for rules that normalise.
    """

    score: FloatArray
    eligible: BoolArray
    normalised: Mapping[str, FloatArray] = field(default_factory=dict)

    def row(self, r: int) -> Ranking:
        """The ranking of one run of many."""
        normalised = {name: values[r] for name, values in self.normalised.items()}
        return Ranking(self.score[r], self.eligible[r], normalised)


def smallest(values: NDArray[Any], among: BoolArray) -> BoolArray:
    """Where ``values`` is smallest among the marked entries."""
    largest: Any = np.inf if values.dtype.kind == "f" else np.iinfo(values.dtype).max
    best = np.where(among, values, largest).min(axis=-1, keepdims=True)
    return np.asarray(among & (values == best))


def positions(ranking: Ranking, order: IntArray, *, ties: Ties) -> IntArray:
    """Rank of every checkpoint of one run, from 1; those not eligible follow, by ``order``."""
    time = np.arange(len(order))
    among_tied = {"accuracy": order, "earliest": time, "latest": -time}[ties]
    tie = np.where(ranking.eligible, among_tied, order)
    score = np.where(ranking.eligible, ranking.score, 0.0)
    rank = np.empty(len(order), dtype=np.int64)
    rank[np.lexsort((tie, score, ~ranking.eligible))] = time + 1
    return rank
