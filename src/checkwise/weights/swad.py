"""SWAD from saved checkpoints: the loss valley of a run, averaged into one model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from checkwise.selection import select
from checkwise.selection.columns import Columns
from checkwise.selection.valley import loss_valley
from checkwise.weights.averaging import average
from checkwise.weights.checkpoints import read_checkpoint
from checkwise.weights.evaluate import OpenRun
from checkwise.weights.recipe import Made, Plan, StoredRun

VALLEY = {"n_converge": 3, "n_tolerance": 6, "tolerance_ratio": 0.3}


def plan(runs: Sequence[StoredRun], params: Mapping[str, Any]) -> Plan:
    """Which steps to average, from the mean source-validation NLL of every record."""
    (run,) = runs
    table = Columns.of(run.trajectory)
    kept = ~table["diverged"]
    steps = table["step"][kept].tolist()
    valley = loss_valley(
        table["nll"][kept].tolist(), mode=params["mode"], **{name: params[name] for name in VALLEY}
    )
    notes = list(valley.notes)
    if not kept.all():
        lost = int((~kept).sum())
        notes.append(f"{lost} diverged checkpoint{'s' * (lost > 1)} left out")
    counted = valley.multiplicities
    inputs = {
        "steps": [steps[index] for index in counted],
        "multiplicities": list(counted.values()),
        "converged_at": None if valley.converged_at is None else steps[valley.converged_at],
        "threshold": valley.threshold,
        "dead": valley.dead,
        "source.jsonl": run.source_digest,
    }
    return Plan(inputs, tuple(notes))


def plan_alone(runs: Sequence[StoredRun], params: Mapping[str, Any]) -> Plan:
    """The one checkpoint that source-acc picks: what re-estimation does without averaging."""
    (run,) = runs
    step = select(run.trajectory, "source-acc").step
    return Plan({"steps": [step], "multiplicities": [1], "source.jsonl": run.source_digest})


def make(
    runs: Sequence[OpenRun], inputs: Mapping[str, Any], params: Mapping[str, Any]
) -> dict[Any, Made]:
    """Average the planned steps, then estimate BatchNorm anew unless told not to."""
    (run,) = runs
    return {run.key: averaged(run, inputs, minibatches=params["minibatches"])}


def averaged(run: OpenRun, inputs: Mapping[str, Any], *, minibatches: int) -> Made:
    """The mean of some steps of a run, with multiplicities; 0 minibatches keep the buffers."""
    pairs = zip(inputs["steps"], inputs["multiplicities"], strict=True)
    mean = average(
        ((read_checkpoint(run.folder, step), times) for step, times in pairs),
        parameters=run.parameters,
    )
    return finished(run, mean, minibatches)


def finished(run: OpenRun, weights: Mapping[str, Any], minibatches: int) -> Made:
    """Estimate BatchNorm where asked for, and evaluate."""
    notes: tuple[str, ...] = ()
    state = dict(weights)
    if minibatches:
        state, layers = run.recalibrated(state, minibatches)
        if not layers:
            notes = ("the network has no live BatchNorm: there was nothing to estimate",)
    return Made(run.outputs(state), state, notes)
