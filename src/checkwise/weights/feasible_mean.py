"""Averaging inside the feasible set: parameters or predictions of what ac-nc ranks best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from checkwise.selection import select
from checkwise.weights.checkpoints import read_checkpoint
from checkwise.weights.evaluate import OpenRun, mean_log_probabilities
from checkwise.weights.recipe import Made, Plan, StoredRun
from checkwise.weights.swad import averaged


def plan(runs: Sequence[StoredRun], params: Mapping[str, Any]) -> Plan:
    """The feasible steps from the best rank down; the first ``top`` of them, or all."""
    (run,) = runs
    chosen = select(run.trajectory, "ac-nc", delta_pp=params["delta_pp"])
    order = np.argsort(chosen.rank)[: len(chosen.feasible_steps)]
    steps = run.trajectory.steps[order].tolist()
    taken = steps if params["top"] is None else steps[: params["top"]]
    notes = []
    if len(taken) == 1:
        notes.append("only one checkpoint is feasible: this is ac-nc's choice")
    inputs = {
        "steps": taken,
        "multiplicities": [1] * len(taken),
        "feasible": len(steps),
        "source.jsonl": run.source_digest,
    }
    return Plan(inputs, tuple(notes))


def make_weights(
    runs: Sequence[OpenRun], inputs: Mapping[str, Any], params: Mapping[str, Any]
) -> dict[Any, Made]:
    """One model whose parameters are the mean."""
    (run,) = runs
    return {run.key: averaged(run, inputs, minibatches=params["minibatches"])}


def make_probabilities(
    runs: Sequence[OpenRun], inputs: Mapping[str, Any], params: Mapping[str, Any]
) -> dict[Any, Made]:
    """An ensemble whose probabilities are the mean; it has no weights of its own."""
    (run,) = runs
    outputs = [run.outputs(read_checkpoint(run.folder, step)) for step in inputs["steps"]]
    return {run.key: Made(mean_log_probabilities(outputs), None)}
