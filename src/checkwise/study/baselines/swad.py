"""SWAD from saved checkpoints: the loss valley of a run, averaged into one model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from checkwise.deployed import average, read_checkpoint
from checkwise.selection import Columns, loss_valley, select
from checkwise.study.baselines.recipe import BATCHNORM, Model, Plan, Recipe, StoredRun

if TYPE_CHECKING:
    from checkwise.study.baselines.evaluate import OpenRun

VALLEY = {"n_converge": 3, "n_tolerance": 6, "tolerance_ratio": 0.3}


def plan(runs: Sequence[StoredRun], params: Mapping[str, Any]) -> Plan:
    """Which steps to average, from the mean source-validation NLL of every record."""
    (run,) = runs
    table = Columns.of(run.trajectory)
    usable = ~table["diverged"]
    steps = table["step"][usable].tolist()
    valley = loss_valley(
        table["nll"][usable].tolist(),
        mode=params["mode"],
        **{name: params[name] for name in VALLEY},
    )
    notes = list(valley.notes)
    if not usable.all():
        diverged = int((~usable).sum())
        notes.append(f"{diverged} diverged checkpoint{'s' * (diverged > 1)} left out")
    inputs = {
        "steps": [steps[index] for index in valley.multiplicities],
        "multiplicities": list(valley.multiplicities.values()),
        "converged_at": None if valley.converged_at is None else steps[valley.converged_at],
        "threshold": valley.threshold,
        "dead": valley.dead,
        "source.jsonl": run.source_digest,
    }
    return Plan(inputs, tuple(notes))


def plan_alone(runs: Sequence[StoredRun], params: Mapping[str, Any]) -> Plan:
    """The one checkpoint that source-acc picks: what re-estimation does without averaging."""
    (run,) = runs
    step = select(run.trajectory, "source-acc", guard=False).step
    return Plan({"steps": [step], "multiplicities": [1], "source.jsonl": run.source_digest})


def make(
    runs: Sequence[OpenRun], inputs: Mapping[str, Any], params: Mapping[str, Any]
) -> dict[Any, Model]:
    """Average the planned steps, then re-estimate BatchNorm unless ``minibatches`` is 0."""
    (run,) = runs
    return {run.key: averaged(run, inputs, minibatches=params["minibatches"])}


def averaged(run: OpenRun, inputs: Mapping[str, Any], *, minibatches: int) -> Model:
    """The mean of some steps of a run, with multiplicities; 0 minibatches keep the buffers."""
    pairs = zip(inputs["steps"], inputs["multiplicities"], strict=True)
    mean = average(
        ((read_checkpoint(run.folder, step), times) for step, times in pairs),
        parameters=run.parameters,
    )
    return with_batchnorm(run, mean, minibatches)


def with_batchnorm(run: OpenRun, weights: Mapping[str, Any], minibatches: int) -> Model:
    """The model with its BatchNorm statistics re-estimated where asked for, evaluated."""
    notes: tuple[str, ...] = ()
    state = dict(weights)
    if minibatches:
        state, layers = run.recalibrated(state, minibatches)
        if not layers:
            notes = ("the network has no live BatchNorm: there was nothing to estimate",)
    return Model(run.outputs(state), state, notes)


SWAD = Recipe(
    "mean of the checkpoints in the loss valley, BatchNorm re-estimated",
    plan,
    make,
    {**VALLEY, "mode": "faithful", **BATCHNORM},
)
AS_DESCRIBED = SWAD.variant("the same with each checkpoint of the valley once", mode="as-described")
SWAD_NOBN = SWAD.variant("swad with the BatchNorm buffers of its first checkpoint", minibatches=0)
AS_DESCRIBED_NOBN = AS_DESCRIBED.variant("swad-as-described, buffers of its first", minibatches=0)
SOURCE_ACC_BN = Recipe(
    "source-acc with BatchNorm re-estimated: swad's control", plan_alone, make, BATCHNORM
)
