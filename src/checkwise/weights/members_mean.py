"""Averages over the checkpoints within a point of the best: all, a few, or greedily chosen ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import fsum, inf, isfinite
from typing import TYPE_CHECKING, Any, TypeVar

from checkwise.metrics.examples import per_example
from checkwise.selection import select
from checkwise.selection.columns import Columns
from checkwise.selection.members import MEMBERS_DELTA_PP, members
from checkwise.weights.feasible_mean import make_probabilities, make_weights
from checkwise.weights.recipe import BATCHNORM, Model, Plan, Recipe, StoredRun
from checkwise.weights.swad import averaged

if TYPE_CHECKING:
    from checkwise.weights.evaluate import OpenRun

Item = TypeVar("Item")
NEAR_BEST = "ac-early"  # the rule whose feasible set depends on accuracy alone


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


def plan_greedy(runs: Sequence[StoredRun], params: Mapping[str, Any]) -> Plan:
    """All members from the lowest source NLL up, to be offered in this order."""
    (run,) = runs
    near = select(run.trajectory, NEAR_BEST, guard=False, delta_pp=params["delta_pp"])
    nll = dict(zip(run.trajectory.steps.tolist(), Columns.of(run.trajectory)["nll"], strict=True))
    offered = sorted(members(near, delta_pp=params["delta_pp"]), key=lambda step: nll[step])
    return Plan({"offered": offered, "source.jsonl": run.source_digest})


def make_greedy_probabilities(
    runs: Sequence[OpenRun], inputs: Mapping[str, Any], params: Mapping[str, Any]
) -> dict[Any, Model]:
    """The ensemble that grows while the source NLL of its mean falls."""
    from checkwise.weights.evaluate import mean_log_probabilities

    (run,) = runs
    outputs = {step: run.checkpoint_outputs(step) for step in inputs["offered"]}

    def mean(steps: Sequence[int]) -> Model:
        return Model(mean_log_probabilities([outputs[step] for step in steps]), None)

    taken = greedy(inputs["offered"], lambda steps: _source_nll(mean(steps)))
    return {run.key: _noted(mean(taken), taken)}


def make_greedy_weights(
    runs: Sequence[OpenRun], inputs: Mapping[str, Any], params: Mapping[str, Any]
) -> dict[Any, Model]:
    """The mean of parameters that grows while its source NLL falls."""
    (run,) = runs

    def mean(steps: Sequence[int]) -> Model:
        counted = {"steps": steps, "multiplicities": [1] * len(steps)}
        return averaged(run, counted, minibatches=params["minibatches"])

    taken = greedy(inputs["offered"], lambda steps: _source_nll(mean(steps)))
    return {run.key: _noted(mean(taken), taken)}


def greedy(offered: Sequence[Item], nll: Callable[[Sequence[Item]], float]) -> list[Item]:
    """Take the first, then each that makes the NLL of the mean of all taken fall.

    Example:
        >>> greedy([5, 1, 9, 6], lambda taken: abs(sum(taken) / len(taken) - 6))
        [5, 6]
    """
    taken = [offered[0]]
    lowest = nll(taken)
    for item in offered[1:]:
        value = nll([*taken, item])
        if value < lowest:
            taken, lowest = [*taken, item], value
    return taken


def source_nll(logits: Mapping[str, tuple[Any, Any]]) -> float:
    """The equal mean over source domains of the NLL; infinite where a logit is not finite."""
    domains = [per_example(logits=z, labels=y).nll.mean() for z, y in logits.values()]
    mean = fsum(domains) / len(domains)
    return mean if isfinite(mean) else inf


def _source_nll(model: Model) -> float:
    return inf if model.outputs.diverged("source") else source_nll(model.outputs.of("source"))


def _noted(model: Model, taken: Sequence[int]) -> Model:
    steps = ", ".join(map(str, sorted(taken)))
    return Model(model.outputs, model.weights, (*model.notes, f"taken: {steps}"))


_MEMBERS = {"delta_pp": MEMBERS_DELTA_PP, "k": None}
_OFFERED = {"delta_pp": MEMBERS_DELTA_PP}
MEAN_PROBS = Recipe(
    "mean probabilities of every checkpoint within 1 point of the best",
    plan,
    make_probabilities,
    _MEMBERS,
)
MEAN_PROBS_3 = MEAN_PROBS.variant("mean probabilities of 3 spread over these checkpoints", k=3)
MEAN_PROBS_5 = MEAN_PROBS.variant("mean probabilities of 5 spread over these checkpoints", k=5)
MEAN_PROBS_GREEDY = Recipe(
    "mean probabilities, each checkpoint added where source NLL falls",
    plan_greedy,
    make_greedy_probabilities,
    _OFFERED,
)
MEAN_WEIGHTS = Recipe(
    "mean parameters of every checkpoint within 1 point of the best",
    plan,
    make_weights,
    {**_MEMBERS, **BATCHNORM},
)
MEAN_WEIGHTS_GREEDY = Recipe(
    "mean parameters, each checkpoint added where source NLL falls",
    plan_greedy,
    make_greedy_weights,
    {**_OFFERED, **BATCHNORM},
)
