"""A row applied to the runs of a cohort: choices, recalibrated where asked, with what they cost."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from checkwise import metrics
from checkwise.calibrators.source_temperatures import calibrate
from checkwise.errors import InputError
from checkwise.records import RunKey, Trajectory
from checkwise.selection import Rule, Selection, get_rule, select, select_many
from checkwise.store.cohort import open_cohort
from checkwise.store.layout import inner_path
from checkwise.store.logits import mean_metrics, source_logits
from checkwise.study.lodo import PseudoTargets, training_seconds
from checkwise.study.outcome import Outcome, outcome_at, timed
from checkwise.study.rows import Row
from checkwise.study.runs import Runs, Validations
from checkwise.study.scopes import Scope, blocks, pooled
from checkwise.study.setting import Setting


def choices(
    path: Path,
    runs: Runs,
    usable: Mapping[RunKey, Trajectory],
    setting: Setting,
    *,
    scope: Scope = "run",
    options: Mapping[str, Any],
) -> tuple[Outcome, ...]:
    """Apply a row to every run; nothing of the target is read.

    In a scope other than ``run`` there is one outcome per block of runs that differ in their
    hparams seed. A row that chooses hyperparameters itself gives every run of a block its model.
    """
    row = setting.row
    assert row.rule is not None
    if row.scaling is not None:
        _compile()
    began = time.perf_counter()
    validation = Validations(path, runs, usable).of(row, setting.params, options)
    if scope == "run" and row.scope == "run":
        found = _by_run(row, row.rule, validation, usable, setting.params, options)
    else:
        within = row.scope if row.scope != "run" else scope
        found = _by_block(row, row.rule, validation, usable, setting.params, within, options)
        if scope == "run":
            found = tuple(
                replace(each, key=key, run=each.deployed)
                for each in found
                for key in blocks(usable)[each.key]
                if key in validation
            )
    if row.scaling not in (None, "oracle"):
        found = tuple(_scaled(each, runs, row.scaling) for each in found)
    found = timed(found, time.perf_counter() - began)
    return _with_training(found, path, usable, scope) if row.validation == "lodo" else found


@cache
def _compile() -> None:
    """Load the kernels of the metrics now: what that takes is no part of a method's cost."""
    metrics.evaluate(logits=np.zeros((2, 2)), labels=np.array([0, 1]))


def _by_run(
    row: Row,
    rule: Rule,
    validation: Mapping[RunKey, Trajectory],
    usable: Mapping[RunKey, Trajectory],
    params: Mapping[str, Any],
    options: Mapping[str, Any],
) -> tuple[Outcome, ...]:
    chosen = select_many(validation, rule, **options, **params)
    return tuple(_outcome(key, usable[key], s, row, options) for key, s in chosen.items())


def _by_block(
    row: Row,
    rule: Rule,
    validation: Mapping[RunKey, Trajectory],
    usable: Mapping[RunKey, Trajectory],
    params: Mapping[str, Any],
    scope: Scope,
    options: Mapping[str, Any],
) -> tuple[Outcome, ...]:
    if row.expected and scope == "hparams-ac":
        raise InputError(
            f"Expected a rule that chooses a checkpoint, but {row.method.name} is a mean over the "
            "feasible set, which spans several runs here: use the scope hparams-acc."
        )
    found = []
    for key, members in blocks(usable).items():
        present = {member: validation[member] for member in members if member in validation}
        if not present:
            continue
        block = pooled(present)
        by = get_rule("source-acc") if scope == "hparams-acc" else rule
        asked = {} if scope == "hparams-acc" else params
        first = select(block.trajectory, by, **options, **asked)
        winner = block.run_of[first.index]
        if scope == "hparams-acc":
            chosen = select(validation[winner], rule, **options, **params)
            found.append(_outcome(key, usable[winner], chosen, row, options))
            continue
        step = block.step_of[first.index]
        outcome = outcome_at(key, usable[winner], (step,), options=options)
        found.append(
            replace(outcome, run=winner, eligible=len(first.feasible_steps), score=first.score)
        )
    return tuple(found)


def _outcome(
    key: RunKey, run: Trajectory, selection: Selection, row: Row, options: Mapping[str, Any]
) -> Outcome:
    at = np.flatnonzero(selection.ranking.eligible) if row.expected else [selection.index]
    steps = tuple(selection.trajectory.steps[at].tolist())
    return replace(
        outcome_at(key, run, steps, options=options),
        eligible=len(selection.feasible_steps),
        score=float("nan") if row.expected else selection.score,
    )


def _scaled(outcome: Outcome, runs: Runs, variant: Any) -> Outcome:
    """The outcome with its logits rescaled: the source metrics are then in-sample."""
    run = runs[outcome.deployed]
    logits = source_logits(runs.folder(outcome.deployed), outcome.steps[0])
    fitted = calibrate(logits, variant)
    found = fitted.metrics(logits, bins=run.bins or 15, bandwidth=run.bandwidth or 0.1)
    source = {**outcome.source, **mean_metrics(found.values())}
    return replace(outcome, source=source, calibration=fitted, in_sample=True)


def _with_training(
    found: tuple[Outcome, ...], path: Path, usable: Mapping[RunKey, Trajectory], scope: Scope
) -> tuple[Outcome, ...]:
    """LODO costs the training of its inner runs; one that serves two targets is shared by them."""
    inner = open_cohort(inner_path(path))
    folders = {
        key: list(PseudoTargets(inner, key, usable[key].domains).folders.values()) for key in usable
    }
    served = [folder for each in folders.values() for folder in each]
    cost = {folder: training_seconds(folder) / served.count(folder) for folder in set(served)}
    members = blocks(usable) if scope != "run" else {key: [key] for key in usable}
    return tuple(
        replace(
            each,
            seconds=each.seconds
            + sum(cost[folder] for key in members[each.key] for folder in folders[key]),
        )
        for each in found
    )
