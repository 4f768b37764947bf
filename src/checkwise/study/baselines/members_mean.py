"""Averages over the checkpoints within a point of the best: all of them, or a few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from checkwise.selection import MEMBERS_DELTA_PP, NEAR_BEST, members, select
from checkwise.study.baselines.feasible_mean import make_probabilities, make_weights
from checkwise.study.baselines.recipe import BATCHNORM, Plan, Recipe, StoredRun


def plan(runs: Sequence[StoredRun], params: Mapping[str, Any]) -> Plan:
    """All members in order of time, or ``k`` of them."""
    (run,) = runs
    near = select(run.trajectory, NEAR_BEST, guard=False, delta_pp=params["delta_pp"])
    steps = list(members(near, params["k"], delta_pp=params["delta_pp"]))
    notes = ("only one checkpoint is near the best: this is it",) if len(steps) == 1 else ()
    return Plan(
        {
            "steps": steps,
            "multiplicities": [1] * len(steps),
            "feasible": len(near.feasible_steps),
            "source.jsonl": run.source_digest,
        },
        notes,
    )


_MEMBERS = {"delta_pp": MEMBERS_DELTA_PP, "k": None}
MEMBERS_MEAN_PROBS = Recipe(
    "mean probabilities of every checkpoint within 1 point of the best",
    plan,
    make_probabilities,
    _MEMBERS,
)
MEAN_PROBS_3 = MEMBERS_MEAN_PROBS.variant(
    "mean probabilities of 3 spread over these checkpoints", k=3
)
MEAN_PROBS_5 = MEMBERS_MEAN_PROBS.variant(
    "mean probabilities of 5 spread over these checkpoints", k=5
)
MEMBERS_MEAN_WEIGHTS = Recipe(
    "mean parameters of every checkpoint within 1 point of the best",
    plan,
    make_weights,
    {**_MEMBERS, **BATCHNORM},
)
