"""A method on the runs of a cohort before held-out results: what it chooses, or left there."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from checkwise.calibrators import get_calibrator
from checkwise.errors import InputError
from checkwise.records import RunKey, Trajectory
from checkwise.selection import Choice, Columns, Selection, select, select_many
from checkwise.store import RUNS_FOLDER, SOURCE_FILE, inner_path
from checkwise.study.baselines import (
    SOURCE,
    Derived,
    digest_of,
    folder_of,
    read_record,
    read_source,
)
from checkwise.study.folder import open_cohort
from checkwise.study.lodo import PseudoTargets, Scope, families, pooled, training_seconds
from checkwise.study.method_table import Method
from checkwise.study.outcome import Outcome, entry_metrics, outcome_at, timed
from checkwise.study.protocols import validation_of
from checkwise.study.runs import Runs


def choices(
    path: Path, runs: Runs, method: Method, *, scope: Scope = "run", domains: Mapping[str, Any]
) -> tuple[Outcome, ...]:
    """Apply a method with a rule to every usable run; nothing of the target is read.

    In a scope other than ``run`` there is one outcome per family of runs. A method that chooses
    hyperparameters itself gives every run of a family its model.
    """
    choice = method.choice(**domains)
    began = time.perf_counter()
    validation = validation_of(method, path, runs.validated_by(method.split), choice)
    choosing = _Choosing(method, choice, validation, runs.usable)
    if scope == "run" and method.scope == "run":
        outcomes = choosing.by_run()
    else:
        outcomes = choosing.by_family(method.scope if method.scope != "run" else scope)
        if scope == "run":
            outcomes = choosing.for_members(outcomes)
    if method.calibrator is not None and not method.oracle:
        outcomes = tuple(_calibrated(outcome, runs, method) for outcome in outcomes)
    outcomes = timed(outcomes, time.perf_counter() - began)
    if method.validation == "lodo":
        return _with_training(outcomes, path, runs.usable, scope)
    return outcomes


@dataclass(frozen=True, eq=False)
class _Choosing:
    """A rule on what the validation of some runs says; their own may say something else."""

    method: Method
    choice: Choice
    validation: Mapping[RunKey, Trajectory]
    usable: Mapping[RunKey, Trajectory]

    def by_run(self) -> tuple[Outcome, ...]:
        chosen = select_many(self.validation, self.choice)
        return tuple(self._outcome(key, key, selection) for key, selection in chosen.items())

    def by_family(self, scope: Scope) -> tuple[Outcome, ...]:
        if self.method.expected:
            _check_best_first(self.method.name, scope)
        choose = self._best_run_first if scope == "hparams-acc" else self._best_pair
        outcomes = []
        for key, members in families(self.usable).items():
            present = {run: self.validation[run] for run in members if run in self.validation}
            if present:
                outcomes.append(choose(key, present))
        return tuple(outcomes)

    def for_members(self, outcomes: Sequence[Outcome]) -> tuple[Outcome, ...]:
        members = families(self.usable)
        return tuple(
            replace(outcome, key=key, run=outcome.deployed)
            for outcome in outcomes
            for key in members[outcome.key]
            if key in self.validation
        )

    def _best_run_first(self, key: RunKey, family: Mapping[RunKey, Trajectory]) -> Outcome:
        """The run of highest validation accuracy, and the rule's choice in it."""
        together = pooled(family)
        by_accuracy = replace(
            self.choice, rule="source-acc", params={}, guard=False, tolerance=None, alpha=None
        )
        winner = together.run_of[select(together.trajectory, by_accuracy).index]
        return self._outcome(key, winner, select(family[winner], self.choice))

    def _best_pair(self, key: RunKey, family: Mapping[RunKey, Trajectory]) -> Outcome:
        together = pooled(family)
        selection = select(together.trajectory, self.choice)
        winner, step = together.run_of[selection.index], together.step_of[selection.index]
        columns = Columns.of(self.usable[winner], self.choice)
        return replace(
            outcome_at(key, self.usable[winner], (step,), columns),
            run=winner,
            eligible=len(selection.feasible_steps),
            score=selection.score,
        )

    def _outcome(self, key: RunKey, run: RunKey, selection: Selection) -> Outcome:
        expected, own = self.method.expected, self.usable[run]
        rows = np.flatnonzero(selection.ranking.eligible) if expected else [selection.index]
        steps = tuple(selection.trajectory.steps[rows].tolist())
        alike = selection.trajectory is own
        columns = selection.columns if alike else Columns.of(own, selection.choice)
        return replace(
            outcome_at(key, own, steps, columns),
            eligible=len(selection.feasible_steps),
            score=float("nan") if expected else selection.score,
            selection=selection,
        )


def _calibrated(outcome: Outcome, runs: Runs, method: Method) -> Outcome:
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
    inner = open_cohort(inner_path(path))
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


def derived_outcomes(
    path: Path, usable: Mapping[RunKey, Trajectory], method: str, *, scope: Scope = "run"
) -> tuple[Outcome, ...]:
    """The source side of a method's results, for the runs that it was applied to."""
    outcomes = []
    for key, run in usable.items():
        record = read_record(path, method, key)
        if record is not None:
            _check_current(path, record)
            outcomes.append(_derived(path, run, record, key))
    if not outcomes:
        raise InputError(
            f"Expected results of {method} beside the runs of {path}, but there are none: "
            f"`checkwise study derive {path} --method {method}` makes them.",
            code="missing",
        )
    if scope == "run":
        return tuple(outcomes)
    return _best_of_families(outcomes, families(usable), method, scope)


def _best_of_families(
    outcomes: list[Outcome], members: Mapping[RunKey, list[RunKey]], method: str, scope: Scope
) -> tuple[Outcome, ...]:
    _check_best_first(method, scope)
    by_key = {outcome.key: outcome for outcome in outcomes}
    best = []
    for key, runs in members.items():
        present = [by_key[run] for run in runs if run in by_key]
        if present:
            winner = max(present, key=lambda outcome: outcome.source["accuracy"])
            best.append(replace(winner, key=key, run=winner.key))
    return tuple(best)


def _check_best_first(method: str, scope: Scope) -> None:
    if scope != "hparams-acc":
        raise InputError(
            f"Expected a rule in the scope {scope}, but {method} chooses no checkpoint, so there "
            "is nothing to rank over several runs: use the scope hparams-acc.",
            code="unsupported",
        )


def _check_current(path: Path, record: Derived) -> None:
    """Refuse a result that was made from other records than its runs have now."""
    digests, members = record.inputs.get(SOURCE_FILE, []), record.inputs.get("members", [])
    if isinstance(digests, str):
        digests, members = [digests], [str(record.run)]
    lists = isinstance(digests, list) and isinstance(members, list)
    fit = lists and len(digests) == len(members) and all(isinstance(m, str) for m in members)
    if digests and not fit:  # one digest for every run that went in
        raise InputError(
            f"Expected the runs that {record.method} was made from, but got {members!r:.80} for "
            f"{record.run}: `checkwise study derive {path} --method {record.method} --force` makes "
            "it again.",
            code="differs",
        )
    for member, digest in zip(members if digests else [], digests, strict=True):
        if digest != digest_of(path, f"{RUNS_FOLDER}/{member}/{SOURCE_FILE}"):
            raise InputError(
                f"Expected {record.method} to be made from the records of {member}, but they have "
                f"changed: `checkwise study derive {path} --method {record.method}` makes it "
                "again.",
                code="differs",
            )


def _derived(path: Path, run: Trajectory, record: Derived, key: RunKey) -> Outcome:
    entry, place = read_source(path, record.method, key), folder_of(path, record.method, key)
    domains = [
        entry_metrics({**metrics, "diverged": entry["diverged"]}, place / SOURCE)
        for metrics in entry["domains"].values()
    ]
    source = {name: float(np.mean([d[name] for d in domains])) for name in domains[0]}
    best = float(np.nanmax(Columns.of(run)["accuracy"]))
    steps = tuple(record.inputs.get("steps", ()))
    return Outcome(
        key=key,
        steps=steps,
        source=source,
        gap_pp=100 * (best - source["accuracy"]),
        eligible=len(steps),
        score=float("nan"),
        seconds=record.seconds,
    )
