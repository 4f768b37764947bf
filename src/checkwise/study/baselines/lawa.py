"""LAWA, latest weight averaging (Kaddour 2022): the mean of the last k checkpoints of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from checkwise.study.baselines.recipe import BATCHNORM, Plan, Recipe, StoredRun
from checkwise.study.baselines.swad import make


def plan(runs: Sequence[StoredRun], params: Mapping[str, Any]) -> Plan:
    """The last ``k`` checkpoints that did not diverge; all of them where a run has fewer."""
    (run,) = runs
    usable = run.trajectory.steps[~run.trajectory.diverged].tolist()
    steps = usable[-params["k"] :]
    notes = []
    if len(steps) < params["k"]:
        notes.append(f"the run has only {len(steps)} checkpoints to average")
    inputs = {
        "steps": steps,
        "multiplicities": [1] * len(steps),
        "source.jsonl": run.source_digest,
    }
    return Plan(inputs, tuple(notes))


LAWA_5 = Recipe(
    "mean of the parameters of the last five checkpoints", plan, make, {"k": 5, **BATCHNORM}
)
