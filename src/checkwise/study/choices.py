"""A method applied to the runs of a cohort: choices, recalibrated where asked, and their cost."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from checkwise import metrics
from checkwise.calibrators import get_calibrator
from checkwise.errors import InputError
from checkwise.records import RunKey, Trajectory
from checkwise.selection import Choice, Columns, Selection, select, select_many
from checkwise.store import layout
from checkwise.study.folder import open_cohort
from checkwise.study.lodo import PseudoTargets, Scope, families, pooled, training_seconds
from checkwise.study.method_table import Method
from checkwise.study.outcome import Outcome, outcome_at, timed
from checkwise.study.protocols import validation_of
from checkwise.study.runs import Runs


def choices(
    path: Path,
    runs: Runs,
    method: Method,
    *,
    scope: Scope = "run",
    domains: Mapping[str, Any],
) -> tuple[Outcome, ...]:
    """Apply a method with a rule to every usable run; nothing of the target is read.

    In a scope other than ``run`` there is one outcome per family of runs. A method that chooses
    hyperparameters itself gives every run of a family its model.
    """
    choice = method.choice(**domains)
    if method.calibrator is not None:
        _compile()
    began = time.perf_counter()
    validation = validation_of(method, path, runs.validated_by(method.split), choice)
    if scope == "run" and method.scope == "run":
        outcomes = _by_run(method, validation, runs.usable, choice)
    else:
        within = method.scope if method.scope != "run" else scope
        outcomes = _by_family(method, validation, runs.usable, within, choice)
        if scope == "run":
            outcomes = _for_members(outcomes, runs.usable, validation)
    if method.calibrator is not None and not method.oracle:
        outcomes = tuple(_calibrated(outcome, runs, method) for outcome in outcomes)
    outcomes = timed(outcomes, time.perf_counter() - began)
    if method.validation == "lodo":
        return _with_training(outcomes, path, runs.usable, scope)
    return outcomes


@cache
def _compile() -> None:
    """Load the kernels of the metrics first: what that takes is no part of a method's cost."""
    metrics.evaluate(logits=np.zeros((2, 2)), labels=np.array([0, 1]))


def _by_run(
    method: Method,
    validation: Mapping[RunKey, Trajectory],
    usable: Mapping[RunKey, Trajectory],
    choice: Choice,
) -> tuple[Outcome, ...]:
    return tuple(
        _outcome(key, usable[key], selection, method)
        for key, selection in select_many(validation, choice).items()
    )


def _by_family(
    method: Method,
    validation: Mapping[RunKey, Trajectory],
    usable: Mapping[RunKey, Trajectory],
    scope: Scope,
    choice: Choice,
) -> tuple[Outcome, ...]:
    if method.expected and scope == "hparams-ac":
        raise InputError(
            f"Expected a rule that chooses a checkpoint, but {method.name} is a mean over the "
            "feasible set, which spans several runs here: use the scope hparams-acc.",
            code="unsupported",
        )
    choose = _best_run_first if scope == "hparams-acc" else _best_pair
    outcomes = []
    for key, members in families(usable).items():
        present = {member: validation[member] for member in members if member in validation}
        if present:
            outcomes.append(choose(key, present, method, usable, choice))
    return tuple(outcomes)


def _best_run_first(
    key: RunKey,
    family: Mapping[RunKey, Trajectory],
    method: Method,
    usable: Mapping[RunKey, Trajectory],
    choice: Choice,
) -> Outcome:
    """The run of highest validation accuracy, and the rule's choice in it."""
    together = pooled(family)
    by_accuracy = replace(
        choice, rule="source-acc", params={}, guard=False, tolerance=None, alpha=None
    )
    winner = together.run_of[select(together.trajectory, by_accuracy).index]
    return _outcome(key, usable[winner], select(family[winner], choice), method)


def _best_pair(
    key: RunKey,
    family: Mapping[RunKey, Trajectory],
    method: Method,
    usable: Mapping[RunKey, Trajectory],
    choice: Choice,
) -> Outcome:
    """The rule's choice among all (run, checkpoint) pairs."""
    together = pooled(family)
    selection = select(together.trajectory, choice)
    winner, step = together.run_of[selection.index], together.step_of[selection.index]
    outcome = outcome_at(key, usable[winner], (step,), Columns.of(usable[winner], choice))
    return replace(
        outcome, run=winner, eligible=len(selection.eligible_steps), score=selection.score
    )


def _for_members(
    outcomes: tuple[Outcome, ...],
    usable: Mapping[RunKey, Trajectory],
    validation: Mapping[RunKey, Trajectory],
) -> tuple[Outcome, ...]:
    """The outcome of every family once for each of its runs."""
    members = families(usable)
    return tuple(
        replace(outcome, key=key, run=outcome.deployed)
        for outcome in outcomes
        for key in members[outcome.key]
        if key in validation
    )


def _outcome(key: RunKey, run: Trajectory, selection: Selection, method: Method) -> Outcome:
    rows = np.flatnonzero(selection.ranking.eligible) if method.expected else [selection.index]
    steps = tuple(selection.trajectory.steps[rows].tolist())
    own = selection.trajectory is run
    columns = selection.columns if own else Columns.of(run, selection.choice)
    return replace(
        outcome_at(key, run, steps, columns),
        eligible=len(selection.eligible_steps),
        score=float("nan") if method.expected else selection.score,
        selection=selection,
    )


def _calibrated(outcome: Outcome, runs: Runs, method: Method) -> Outcome:
    """The outcome with its logits calibrated on what the method looked at.

    The source metrics are of the run's own validation set: in-sample, if that is what it was.
    """
    assert method.calibrator is not None
    run = runs[outcome.deployed]
    logits = runs.logits(outcome.deployed, outcome.steps[0])
    seen = logits
    if method.split is not None:
        seen = runs.validated_by(method.split).logits(outcome.deployed, outcome.steps[0])
    fitted = get_calibrator(method.calibrator).fit(seen, force=True)
    calibrated = fitted.metrics(logits, **run.metric_settings)
    entries = list(calibrated.values())
    names = [name for name in entries[0] if name not in ("n", "correct")]
    means = {name: float(np.mean([entry[name] for entry in entries])) for name in names}
    source = {**outcome.source, **means}
    return replace(outcome, source=source, calibration=fitted, in_sample=method.split != "groups")


def _with_training(
    outcomes: tuple[Outcome, ...], path: Path, usable: Mapping[RunKey, Trajectory], scope: Scope
) -> tuple[Outcome, ...]:
    """LODO costs the training of its inner runs; one that serves two targets is shared by them."""
    inner = open_cohort(layout.inner_path(path))
    folders = {
        key: list(PseudoTargets(inner, key, usable[key].domains).folders.values()) for key in usable
    }
    served = [folder for of_run in folders.values() for folder in of_run]
    cost = {folder: training_seconds(folder) / served.count(folder) for folder in set(served)}
    members = families(usable) if scope != "run" else {key: [key] for key in usable}
    trained = {
        key: sum(cost[folder] for run in runs for folder in folders[run])
        for key, runs in members.items()
    }
    return tuple(
        replace(outcome, seconds=outcome.seconds + trained[outcome.key]) for outcome in outcomes
    )
