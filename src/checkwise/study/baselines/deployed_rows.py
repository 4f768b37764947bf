"""What ``deploy`` writes, evaluated like the runs' own checkpoints, as rows of a comparison.

One checkpoint or a mean of probabilities, then a calibrator that is fitted to the source
validation of that very model. With too few errors a calibrator refuses, as it does in ``deploy``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from checkwise.calibrators import DEFAULT, fit
from checkwise.selection import DEFAULT_RULE, FEW_ERRORS, MEMBERS_DELTA_PP, SAFER, select
from checkwise.study.baselines.means import make_probabilities, plan_members
from checkwise.study.baselines.recipe import (
    Model,
    Plan,
    Recipe,
    StoredRun,
    Values,
)

if TYPE_CHECKING:
    from checkwise.study.baselines.evaluate import OpenRun

FEW = 5  # members of an average that somebody has to run


def plan_choice(run: StoredRun, params: Values) -> Plan:
    """The step that a rule chooses."""
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


def make(run: OpenRun, inputs: Values, params: Values) -> Model:
    """The mean of the members' probabilities, calibrated."""
    model = make_probabilities(run, inputs, params)
    outputs = model.outputs
    if outputs.diverged("source"):
        return model
    fitted = fit(outputs.of("source"), params["calibrator"])
    logits = tuple(fitted.apply(z).astype(np.float32) for z in outputs.logits)
    notes = (*model.notes, f"{fitted.name}: {fitted.state}")
    return Model(replace(outputs, logits=logits), model.weights, notes)


_MEAN_PROBS = Recipe.of_each(
    f"what `deploy --average {FEW}` writes, with {DEFAULT}",
    plan_members,
    make,
    {"delta_pp": MEMBERS_DELTA_PP, "k": FEW, "calibrator": DEFAULT},
)
DEPLOYED: Final = {
    "deploy": Recipe.of_each(
        f"what `deploy` writes: the choice of {DEFAULT_RULE}, then {DEFAULT}",
        plan_choice,
        make,
        {"rule": DEFAULT_RULE, "calibrator": DEFAULT},
    ),
    "deploy-mean-probs": _MEAN_PROBS.variant(
        f"what `deploy --average all` writes with all members, with {DEFAULT}", k=None
    ),
    "deploy-mean-probs-5": _MEAN_PROBS,
    "advised": Recipe.of_each(
        "the registered advice: deploy-mean-probs-5, or ac-early where validation is saturated",
        plan_advised,
        make,
        {
            **_MEAN_PROBS.params,
            "rule": DEFAULT_RULE,
            "few_errors": FEW_ERRORS,
            "safer": SAFER,
        },
    ),
}
