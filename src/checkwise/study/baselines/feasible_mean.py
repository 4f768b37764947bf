"""Averaging inside the feasible set: parameters or predictions of all its checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from checkwise.selection import DELTA_PP, select
from checkwise.study.baselines.recipe import BATCHNORM, Model, Plan, Recipe, StoredRun
from checkwise.study.baselines.swad import averaged

if TYPE_CHECKING:
    from checkwise.study.baselines.evaluate import OpenRun


def plan(runs: Sequence[StoredRun], params: Mapping[str, Any]) -> Plan:
    """The feasible steps from the best rank down."""
    (run,) = runs
    chosen = select(run.trajectory, "ac-nc", guard=False, delta_pp=params["delta_pp"])
    order = np.argsort(chosen.rank)[: len(chosen.feasible_steps)]
    steps = run.trajectory.steps[order].tolist()
    notes = ("only one checkpoint is feasible: this is ac-nc's choice",) if len(steps) == 1 else ()
    inputs = {
        "steps": steps,
        "multiplicities": [1] * len(steps),
        "feasible": len(steps),
        "source.jsonl": run.source_digest,
    }
    return Plan(inputs, notes)


def make_weights(
    runs: Sequence[OpenRun], inputs: Mapping[str, Any], params: Mapping[str, Any]
) -> dict[Any, Model]:
    """One model whose parameters are the mean."""
    (run,) = runs
    return {run.key: averaged(run, inputs, minibatches=params["minibatches"])}


def make_probabilities(
    runs: Sequence[OpenRun], inputs: Mapping[str, Any], params: Mapping[str, Any]
) -> dict[Any, Model]:
    """An ensemble whose probabilities are the mean; it has no weights of its own."""
    from checkwise.study.baselines.evaluate import mean_log_probabilities

    (run,) = runs
    outputs = [run.checkpoint_outputs(step) for step in inputs["steps"]]
    return {run.key: Model(mean_log_probabilities(outputs), None)}


_FEASIBLE = {"delta_pp": str(DELTA_PP)}
MEAN_WEIGHTS = Recipe(
    "mean of the parameters of every feasible checkpoint",
    plan,
    make_weights,
    {**_FEASIBLE, **BATCHNORM},
)
MEAN_PROBS = Recipe(
    "mean of the predictions of every feasible checkpoint", plan, make_probabilities, _FEASIBLE
)
