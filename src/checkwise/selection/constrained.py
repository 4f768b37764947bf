"""Accuracy-constrained reliability selection, AC(δ, M, q), from the tolerance to the choice.

1. Feasible set Θ: the checkpoints whose mean source accuracy (or another score that is named as
   the constraint) is within δ of the best.
2. Normalised objectives: each m in M becomes (m − a) / (b − a + η), with its smallest value a and
   its largest value b over Θ; 0 where a = b.
3. Distance D_q: the L1, L2 or L∞ norm of the normalised objectives.
4. Choice: the lexicographically smallest (D_q, −accuracy, step) in Θ, unless ties are broken
   otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from checkwise.selection.columns import Columns
from checkwise.selection.constraint import ACCURACY, Points, tolerance_of
from checkwise.selection.ranking import Ranking, Ties, smallest
from checkwise.selection.standing import BoolArray, FloatArray, IntArray

Norm: TypeAlias = float | Literal["inf"]

DELTA_PP = 0.5
Q = np.inf
ETA = 1e-12
OBJECTIVES: dict[str, tuple[str, ...]] = {
    "nc": ("nll", "cwece"),
    "ne": ("nll", "ece"),
    "nec": ("nll", "ece", "cwece"),
    "ece": ("ece",),
    "nll": ("nll",),
    "cwece": ("cwece",),
}


def accuracy_constrained(
    table: Columns,
    *,
    objectives: Sequence[str],
    delta_pp: Points = DELTA_PP,
    q: Norm = Q,
    pareto: bool = False,
    eta: float = ETA,
    constraint: str = ACCURACY,
    delta: str | float | None = None,
) -> Ranking:
    """Rank the feasible checkpoints by the distance of their normalised objectives.

    Args:
        objectives: the metrics M; those that are better when higher are negated.
        delta_pp: the tolerance δ in percentage points, where accuracy is the constraint.
        q: 1, 2 or inf.
        pareto: first drop checkpoints that another one beats in every objective. In exact
            arithmetic this cannot change the choice for q < ∞, and only ties for q = ∞.
        eta: the offset η. Where two objectives order two checkpoints oppositely, it decides.
        constraint: the score that has to be near its best.
        delta: the tolerance δ of any constraint, instead of ``delta_pp``: ``"0.5%"`` of the best
            value, or an amount in the score's own units.
    """
    feasible = table.near_best(constraint, tolerance_of(delta_pp, delta))
    errors = np.stack([table.error(name) for name in objectives])
    with np.errstate(over="ignore"):  # of checkpoints that are not feasible
        normalised = normalise(errors, feasible, eta)
        score = distance(normalised, q)
    eligible = feasible & nondominated(normalised, feasible) if pareto else feasible
    by_name = dict(zip(objectives, np.where(feasible, normalised, np.nan), strict=True))
    return Ranking(np.where(feasible, score, np.nan), eligible, by_name)


def normalise(errors: FloatArray, feasible: BoolArray, eta: float = ETA) -> FloatArray:
    """Min–max over the feasible set, along the last axis; a constant objective becomes 0."""
    low = np.where(feasible, errors, np.inf).min(axis=-1, keepdims=True)
    high = np.where(feasible, errors, -np.inf).max(axis=-1, keepdims=True)
    width = np.where(high > low, high - low + eta, 1.0)
    return np.where(high > low, (errors - low) / width, 0.0)


def distance(normalised: FloatArray, q: Norm) -> FloatArray:
    """D_q of [M, …, T] normalised objectives, over M."""
    if q == 1:
        return np.asarray(normalised.sum(axis=0))
    if q == 2:
        return np.asarray(np.sqrt((normalised**2).sum(axis=0)))
    return np.asarray(normalised.max(axis=0))


def nondominated(errors: FloatArray, among: BoolArray) -> BoolArray:
    """Marked checkpoints that no other marked one dominates: nowhere worse, somewhere better."""
    this, other = errors[..., :, None], errors[..., None, :]
    beaten = (other <= this).all(axis=0) & (other < this).any(axis=0) & among[..., None, :]
    return among & ~beaten.any(axis=-1)


def choose(ranking: Ranking, order: IntArray, *, ties: Ties) -> NDArray[Any]:
    """Index of the smallest score, per run; among equal ones as ``ties`` says.

    ``order`` is that of the constraint, 0 for the best.
    """
    tied = smallest(ranking.score, ranking.eligible)
    if ties == "accuracy":
        tied = smallest(order, tied)
    if ties == "latest":
        return np.asarray(tied.shape[-1] - 1 - tied[..., ::-1].argmax(axis=-1))
    return np.asarray(tied.argmax(axis=-1))  # the first of them: steps increase
