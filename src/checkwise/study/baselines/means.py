"""One model of a run: means of weights or of predictions of checkpoints, and what deploy writes.

SWAD averages the loss valley, LAWA (latest weight averaging, Kaddour 2022) the last checkpoints,
others what is near the best accuracy. SMA and dense SWAD are averages that were kept while the run
trained. What `deploy` writes has a calibrator that is fitted to the source validation of that very
model; with too few errors it refuses, as it does in `deploy`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from checkwise.calibrators import DEFAULT, fit
from checkwise.deployed import average, read_average, read_checkpoint
from checkwise.errors import InputError
from checkwise.selection import (
    DEFAULT_RULE,
    DELTA_PP,
    FEW_ERRORS,
    MEMBERS_DELTA_PP,
    NEAR_BEST,
    SAFER,
    Columns,
    loss_valley,
    members,
    select,
)
from checkwise.store import average_file, has_file
from checkwise.study.baselines.derived import digest_of
from checkwise.study.baselines.recipe import (
    BATCHNORM,
    FROM_TRAINING,
    Model,
    Plan,
    Recipe,
    StoredRun,
    Values,
)

if TYPE_CHECKING:
    from checkwise.study.baselines.evaluate import OpenRun


VALLEY = {"n_converge": 3, "n_tolerance": 6, "tolerance_ratio": 0.3}


def plan_valley(run: StoredRun, params: Values) -> Plan:
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


def _equally(run: StoredRun, steps: Sequence[int], *notes: str, **facts: Any) -> Plan:
    inputs = {"steps": [*steps], "multiplicities": [1] * len(steps), **facts}
    return Plan({**inputs, "source.jsonl": run.source_digest}, notes)


def plan_alone(run: StoredRun, params: Values) -> Plan:
    """The one checkpoint that source-acc picks: what re-estimation does without averaging."""
    return _equally(run, [select(run.trajectory, "source-acc", guard=False).step])


def plan_feasible(run: StoredRun, params: Values) -> Plan:
    chosen = select(run.trajectory, "ac-nc", guard=False, delta_pp=params["delta_pp"])
    order = np.argsort(chosen.rank)[: len(chosen.feasible_steps)]
    steps = run.trajectory.steps[order].tolist()
    notes = ("only one checkpoint is feasible: this is ac-nc's choice",) if len(steps) == 1 else ()
    return _equally(run, steps, *notes, feasible=len(steps))


def plan_members(run: StoredRun, params: Values) -> Plan:
    """All checkpoints within a point of the best in order of time, or ``k`` of them."""
    near = select(run.trajectory, NEAR_BEST, guard=False, delta_pp=params["delta_pp"])
    steps = list(members(near, params["k"], delta_pp=params["delta_pp"]))
    notes = ("only one checkpoint is near the best: this is it",) if len(steps) == 1 else ()
    return _equally(run, steps, *notes, feasible=len(near.feasible_steps))


def plan_last(run: StoredRun, params: Values) -> Plan:
    """The last ``k`` checkpoints that did not diverge; all of them where a run has fewer."""
    steps = run.trajectory.steps[~run.trajectory.diverged].tolist()[-params["k"] :]
    few = len(steps) < params["k"]
    notes = (f"the run has only {len(steps)} checkpoints to average",) if few else ()
    return _equally(run, steps, *notes)


def plan_kept(run: StoredRun, params: Values) -> Plan:
    name = str(params["average"])
    file = average_file(name)
    if not has_file(run.folder, file):
        raise InputError(
            f"Expected the average {name!r}, but {run.folder} was trained without it: train it "
            f'with averages = ["{name}"] under [training].',
            code="missing",
        )
    return Plan({file: digest_of(run.folder, file)})


def make(run: OpenRun, inputs: Values, params: Values) -> Model:
    """The mean of the planned weights, BatchNorm re-estimated unless ``minibatches`` is 0."""
    return averaged(run, inputs, minibatches=params["minibatches"])


def make_probabilities(run: OpenRun, inputs: Values, params: Values) -> Model:
    """An ensemble whose probabilities are the mean; it has no weights of its own."""
    from checkwise.study.baselines.evaluate import mean_log_probabilities

    outputs = [run.checkpoint_outputs(step) for step in inputs["steps"]]
    return Model(mean_log_probabilities(outputs), None)


def make_kept(run: OpenRun, inputs: Values, params: Values) -> Model:
    weights = read_average(run.folder, str(params["average"]))
    return with_batchnorm(run, weights, params["minibatches"])


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


_SWAD = Recipe.of_each(
    "mean of the checkpoints in the loss valley, BatchNorm re-estimated",
    plan_valley,
    make,
    {**VALLEY, "mode": "faithful", **BATCHNORM},
)
_AS_DESCRIBED = _SWAD.variant(
    "the same with each checkpoint of the valley once", mode="as-described"
)
_FEASIBLE = {"delta_pp": str(DELTA_PP)}
_MEMBERS = {"delta_pp": MEMBERS_DELTA_PP, "k": None}
_MEAN_PROBS = Recipe.of_each(
    "mean probabilities of every checkpoint within 1 point of the best",
    plan_members,
    make_probabilities,
    _MEMBERS,
)
SMA = Recipe.of_each(
    "mean of the weights of every update from step 100 on",
    plan_kept,
    make_kept,
    {"average": "sma", **BATCHNORM},
    needs=FROM_TRAINING,
)
_DENSE_SWAD = SMA.variant(
    "mean of the weights of every update in the loss valley", average="dense-swad"
)
MEANS: Final = {
    "swad": _SWAD,
    "swad-as-described": _AS_DESCRIBED,
    "swad-nobn": _SWAD.variant(
        "swad with the BatchNorm buffers of its first checkpoint", minibatches=0
    ),
    "swad-as-described-nobn": _AS_DESCRIBED.variant(
        "swad-as-described, buffers of its first", minibatches=0
    ),
    "source-acc-bn": Recipe.of_each(
        "source-acc with BatchNorm re-estimated: swad's control", plan_alone, make, BATCHNORM
    ),
    "ac-nc-mean-weights": Recipe.of_each(
        "mean of the parameters of every feasible checkpoint",
        plan_feasible,
        make,
        {**_FEASIBLE, **BATCHNORM},
    ),
    "ac-nc-mean-probs": Recipe.of_each(
        "mean of the predictions of every feasible checkpoint",
        plan_feasible,
        make_probabilities,
        _FEASIBLE,
    ),
    "mean-probs": _MEAN_PROBS,
    **{
        f"mean-probs-{k}": _MEAN_PROBS.variant(
            f"mean probabilities of {k} spread over these checkpoints", k=k
        )
        for k in (3, 5)
    },
    "mean-weights": Recipe.of_each(
        "mean parameters of every checkpoint within 1 point of the best",
        plan_members,
        make,
        {**_MEMBERS, **BATCHNORM},
    ),
    "lawa-5": Recipe.of_each(
        "mean of the parameters of the last five checkpoints",
        plan_last,
        make,
        {"k": 5, **BATCHNORM},
    ),
    "sma": SMA,
    "dense-swad": _DENSE_SWAD,
    "dense-swad-nobn": _DENSE_SWAD.variant(
        "dense-swad with the BatchNorm buffers of the last update", minibatches=0
    ),
}


FEW = 5  # members of an average that somebody has to run


def plan_choice(run: StoredRun, params: Values) -> Plan:
    step = select(run.trajectory, params["rule"], guard=False).step
    return Plan({"steps": [step], "source.jsonl": run.source_digest})


def plan_advised(run: StoredRun, params: Values) -> Plan:
    """What checkwise recommended when the study was registered: frozen, as it was tested."""
    chosen = select(run.trajectory, params["rule"], guard=False)
    validation = chosen.saturation
    if validation is not None and validation.errors <= params["few_errors"]:
        step = select(run.trajectory, params["safer"], guard=False).step
        notes = ("validation is saturated: the earliest near the best",)
        return Plan({"steps": [step], "source.jsonl": run.source_digest}, notes)
    average = plan_members(run, params)
    return average if len(average.inputs["steps"]) > 1 else plan_choice(run, params)


def make_deployed(run: OpenRun, inputs: Values, params: Values) -> Model:
    model = make_probabilities(run, inputs, params)
    outputs = model.outputs
    if outputs.diverged("source"):
        return model
    fitted = fit(outputs.of("source"), params["calibrator"])
    logits = tuple(fitted.apply(z).astype(np.float32) for z in outputs.logits)
    notes = (*model.notes, f"{fitted.name}: {fitted.state}")
    return Model(replace(outputs, logits=logits), model.weights, notes)


_SOFTENED = Recipe.of_each(
    f"what `deploy --average {FEW}` writes, with {DEFAULT}",
    plan_members,
    make_deployed,
    {"delta_pp": MEMBERS_DELTA_PP, "k": FEW, "calibrator": DEFAULT},
)
DEPLOYED: Final = {
    "deploy": Recipe.of_each(
        f"what `deploy` writes: the choice of {DEFAULT_RULE}, then {DEFAULT}",
        plan_choice,
        make_deployed,
        {"rule": DEFAULT_RULE, "calibrator": DEFAULT},
    ),
    "deploy-mean-probs": _SOFTENED.variant(
        f"what `deploy --average all` writes with all members, with {DEFAULT}", k=None
    ),
    "deploy-mean-probs-5": _SOFTENED,
    "advised": Recipe.of_each(
        "the registered advice: deploy-mean-probs-5, or ac-early where validation is saturated",
        plan_advised,
        make_deployed,
        {**_SOFTENED.params, "rule": DEFAULT_RULE, "few_errors": FEW_ERRORS, "safer": SAFER},
    ),
}
