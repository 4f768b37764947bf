"""The rules that come with checkwise: the family of AC, and baselines to compare it with.

``source-acc`` looks at accuracy alone. ``ac-early`` and ``ac-random`` share AC's feasible set and
ignore its objectives. ``pure-…`` and ``wald`` have no tolerance. ``last`` looks at nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from checkwise.errors import InputError
from checkwise.metrics import number, whole
from checkwise.selection.columns import Columns
from checkwise.selection.constrained import DELTA_PP, OBJECTIVES, accuracy_constrained
from checkwise.selection.constraint import ACCURACY, Points, decimal
from checkwise.selection.ranking import Ranking
from checkwise.selection.rulebook import Rank, Rule, check_objectives, register
from checkwise.words import listed, shown

LARGEST_SEED = 2**63 - 1
RANDOM_SEED = 20260926


def check_params(params: Mapping[str, Any]) -> None:
    """Refuse parameters of :func:`accuracy_constrained` that it cannot use."""
    if not isinstance(params["pareto"], bool | np.bool_):
        raise InputError(f"Expected pareto to be true or false, but got {shown(params['pareto'])}.")
    number(params["eta"], "eta", least=0, below=1)
    q = params["q"]
    known = isinstance(q, str | int | float | np.integer | np.floating) and not isinstance(q, bool)
    if not known or q not in (1, 2, np.inf, "inf"):
        raise InputError(f"Expected q to be 1, 2 or inf, but got {shown(q)}.")
    objectives, constraint = check_objectives(params["objectives"]), params.get("constraint")
    # Beside other objectives the constraint is a compromise; alone it makes δ do nothing.
    if constraint != ACCURACY and tuple(objectives) == (constraint,):
        raise InputError(
            f"Expected another objective than the constraint, but both are {constraint}: its best "
            "value would be chosen whatever the tolerance; name another objective."
        )


def source_accuracy(table: Columns) -> Ranking:
    """The highest mean source accuracy; the earliest where several share it, unless ties say."""
    best = table.within_points(0)
    return Ranking(np.where(best, 0.0, table["gap_pp"]), best)


def early(table: Columns, *, delta_pp: Points = DELTA_PP) -> Ranking:
    """The earliest feasible checkpoint."""
    return Ranking(table["step"].astype(np.float64), table.within(delta_pp))


def random(table: Columns, *, delta_pp: Points = DELTA_PP, seed: int = RANDOM_SEED) -> Ranking:
    """One uniform draw from the feasible set, the same for a run every time.

    The k-th feasible checkpoint is drawn with k = hash(seed, run) mod |Θ|.
    """
    import hashlib  # slow to import

    def draw(identity: str) -> int:
        return int.from_bytes(hashlib.sha256(f"{int(seed)}|{identity}".encode()).digest())

    feasible = np.atleast_2d(table.within(delta_pp))
    score = np.ones(feasible.shape)
    for row, identity in enumerate(table.identities):
        candidates = np.flatnonzero(feasible[row])
        score[row, candidates[draw(identity) % len(candidates)]] = 0.0
    return Ranking(score.reshape(table["step"].shape), feasible.reshape(table["step"].shape))


def pure(table: Columns, *, metric: str) -> Ranking:
    """The smallest error over the whole trajectory, whatever the accuracy.

    Uniform predictions are perfectly calibrated, so ECE and CwECE alone tend to choose step 0.
    """
    return Ranking(table.error(metric), ~table["diverged"])


def pure_rule(metric: str) -> Rule:
    """The rule ``pure-METRIC``."""
    return Rule(
        f"pure-{metric}",
        f"smallest {metric} over the whole run, whatever the accuracy",
        partial(pure, metric=metric),
        needs=(metric,),
        needs_accuracy=False,
    )


def last(table: Columns) -> Ranking:
    """The last checkpoint that did not diverge: what one has without choosing."""
    return Ranking(-table["step"].astype(np.float64), ~table["diverged"])


def wald(table: Columns, *, threshold_pp: Points | None = None) -> Ranking:
    """The lowest mean source-domain ECE among checkpoints above an absolute accuracy.

    Wald et al. (2021), without recalibrating the candidates first. With the threshold set to the
    best accuracy minus δ this is ac-ece.
    """
    if threshold_pp is None:
        raise InputError(
            "Rule wald needs threshold_pp, the least accuracy in points (for example 80); "
            "for a tolerance below the best accuracy use ac-ece.",
            code="missing",
        )
    eligible = table.at_least(threshold_pp)
    if not np.all(eligible.any(axis=-1)):
        best = 100 * np.atleast_1d(np.nanmax(table["accuracy"], axis=-1))
        raise InputError(
            f"No checkpoint reaches threshold_pp = {threshold_pp}: the best mean source accuracy "
            f"is {best.min():.2f} points; choose a lower threshold.",
            code="empty",
        )
    return Ranking(table.error("ece"), eligible)


def _check_threshold(params: Mapping[str, Any]) -> None:
    if params["threshold_pp"] is not None:  # the rule itself says where there is none
        decimal(params["threshold_pp"], "threshold_pp")


_near_best = partial(Rule, constrained=True, prunable=True)


def _family(name: str, aim: str, rank: Rank, needs: tuple[str, ...] = ()) -> Rule:
    summary = f"within delta_pp of the best accuracy, {aim}"
    return _near_best(name, summary, rank, needs=needs, check=check_params)


def _aim(objectives: tuple[str, ...]) -> str:
    one = len(objectives) == 1
    return f"smallest {objectives[0]}" if one else f"nearest to the best {listed(objectives)}"


# In the order in which `checkwise rules` lists them.
_BUILT_IN = (
    _near_best("source-acc", "highest mean source accuracy, earliest on ties", source_accuracy),
    *(
        _family(f"ac-{suffix}", _aim(names), partial(accuracy_constrained, objectives=names), names)
        for suffix, names in OBJECTIVES.items()
    ),
    _family("ac", "nearest to the best of the objectives you name", accuracy_constrained),
    _near_best(
        "ac-early", "within delta_pp of the best accuracy, earliest", early, leaves_ties=False
    ),
    _near_best(
        "ac-random",
        "within delta_pp of the best accuracy, one reproducible draw",
        random,
        leaves_ties=False,
        check=lambda params: whole(params["seed"], "seed", most=LARGEST_SEED),
    ),
    *(pure_rule(metric) for metric in ("ece", "cwece", "nll", "brier")),
    Rule(
        "wald",
        "smallest ece among checkpoints with at least threshold_pp accuracy",
        wald,
        needs=("ece",),
        check=_check_threshold,
    ),
    Rule(
        "last",
        "the last checkpoint, whatever its metrics",
        last,
        needs_accuracy=False,
        leaves_ties=False,
    ),
)
for _rule in _BUILT_IN:
    register(_rule)
