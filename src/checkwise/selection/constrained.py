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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.metrics import number
from checkwise.selection.columns import Columns
from checkwise.selection.constraint import ACCURACY, Points, tolerance_of
from checkwise.selection.standing import BoolArray, FloatArray, IntArray
from checkwise.words import shown

Norm: TypeAlias = float | Literal["inf"]
# Which of exactly tied checkpoints is taken; "accuracy": the one with the better constraint.
Ties: TypeAlias = Literal["earliest", "latest", "accuracy"]

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
        return Ranking(
            self.score[r],
            self.eligible[r],
            {name: values[r] for name, values in self.normalised.items()},
        )


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
    check_params(
        {"objectives": objectives, "q": q, "pareto": pareto, "eta": eta, "constraint": constraint}
    )
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
    norm = _check_norm(q)
    if norm == 1:
        return np.asarray(normalised.sum(axis=0))
    if norm == 2:
        return np.asarray(np.sqrt((normalised**2).sum(axis=0)))
    return np.asarray(normalised.max(axis=0))


def _check_norm(q: object) -> float:
    norm = np.inf if isinstance(q, str) and q == "inf" else q
    is_number = isinstance(norm, int | float | np.integer | np.floating)
    if not is_number or isinstance(norm, bool) or norm not in (1, 2, np.inf):
        raise InputError(f"Expected q to be 1, 2 or inf, but got {shown(q)}.")
    return float(norm)


def nondominated(errors: FloatArray, among: BoolArray) -> BoolArray:
    """Marked checkpoints that no other marked one dominates: nowhere worse, somewhere better."""
    this, other = errors[..., :, None], errors[..., None, :]
    beaten = (other <= this).all(axis=0) & (other < this).any(axis=0) & among[..., None, :]
    return among & ~beaten.any(axis=-1)


def check_params(params: Mapping[str, Any]) -> None:
    """Refuse parameters of :func:`accuracy_constrained` that it cannot use."""
    if not isinstance(params["pareto"], bool | np.bool_):
        raise InputError(f"Expected pareto to be true or false, but got {shown(params['pareto'])}.")
    number(params["eta"], "eta", least=0, below=1)
    _check_norm(params["q"])
    objectives = check_objectives(params["objectives"])
    _check_other_objective(objectives, params.get("constraint", ACCURACY))


def check_objectives(objectives: Any) -> Sequence[str]:
    """The objectives themselves, if they are a list that names each metric once."""
    names = objectives if isinstance(objectives, Sequence) else ()
    if not names or isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise InputError(
            f"Expected objectives as a list of metric names, but got {shown(objectives)}: "
            'for example ["nll", "cwece"].'
        )
    if len(set(names)) < len(names):
        raise InputError(f"Expected each objective once, but got {', '.join(names)}.")
    return names


def _check_other_objective(objectives: Sequence[str], constraint: str) -> None:
    """The constraint beside other objectives is a compromise; alone it makes δ do nothing."""
    if constraint != ACCURACY and tuple(objectives) == (constraint,):
        raise InputError(
            f"Expected another objective than the constraint, but both are {constraint}: its best "
            "value would be chosen whatever the tolerance; name another objective."
        )


def check_ties(ties: object) -> Ties:
    """A way to break ties, if it is one."""
    for known in get_args(Ties):
        if ties == known:
            return known  # type: ignore[no-any-return]
    raise InputError(
        f"Expected ties to be {', '.join(get_args(Ties)[:-1])} or {get_args(Ties)[-1]}, but got "
        f"{shown(ties)}."
    )


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


def smallest(values: NDArray[Any], among: BoolArray) -> BoolArray:
    """Where ``values`` is smallest among the marked entries."""
    largest: Any = np.inf if values.dtype.kind == "f" else np.iinfo(values.dtype).max
    best = np.where(among, values, largest).min(axis=-1, keepdims=True)
    return np.asarray(among & (values == best))


def positions(ranking: Ranking, order: IntArray, *, ties: Ties) -> IntArray:
    """Rank of every checkpoint of one run, from 1; those not eligible follow, by ``order``."""
    score = np.where(ranking.eligible, ranking.score, 0.0)
    among_tied = {
        "accuracy": order,
        "earliest": np.zeros_like(order),
        "latest": -np.arange(len(order)),
    }
    tie = np.where(ranking.eligible, among_tied[ties], order)
    sequence = np.lexsort((tie, score, ~ranking.eligible))
    rank = np.empty(len(sequence), dtype=np.int64)
    rank[sequence] = np.arange(1, len(sequence) + 1)
    return rank
