"""One or several cohorts as one set of runs, with every rule's results as columns over the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError, MissingMetricError
from checkwise.records import RunKey, Trajectory
from checkwise.study.cohort import Cohort
from checkwise.study.heldout import Targets
from checkwise.study.outcome import Outcome, key_columns
from checkwise.study.paired import Differences, between
from checkwise.study.setting import Setting
from checkwise.text import listed

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Rule = str | Setting

BOTH = "development + evaluation"


@dataclass(frozen=True, eq=False)
class Group:
    """Some of the runs of a pool: what they have in common, the role of their data, which."""

    labels: tuple[str, ...]
    role: str
    keep: BoolArray


class Columns(dict[str, FloatArray]):
    """Columns by name; one that the runs lack, as imported logs may, is refused in a sentence."""

    def __missing__(self, name: str) -> FloatArray:
        raise MissingMetricError(
            f"Expected a metric that the runs carry, but got {name!r}. They carry "
            f"{', '.join(self)}."
        )


class Pool:
    """Usable runs of cohorts in key order, so that draws do not depend on how they were planned.

    Args:
        cohorts: one or several; no run may be in two of them.
    """

    def __init__(self, cohorts: Sequence[Cohort]):
        if not cohorts:
            raise InputError("Expected at least one cohort, but got none.")
        self.cohorts = tuple(cohorts)
        owner: dict[RunKey, Cohort] = {}
        for cohort in self.cohorts:
            for key in cohort.usable:
                if key in owner:
                    raise InputError(
                        f"Expected each run in one cohort, but {key} is in {owner[key].path} and "
                        f"{cohort.path}: give only one of them."
                    )
                owner[key] = cohort
        if not owner:
            raise InputError(
                f"Expected at least one finished run in {self.cohorts[0].path}, but got none: "
                "`checkwise sweep` with the same study finishes runs."
            )
        self._owner = owner
        self.keys: tuple[RunKey, ...] = tuple(sorted(owner))
        self._columns: dict[str, Mapping[str, FloatArray]] = {}
        self._target: dict[RunKey, dict[str, FloatArray]] = {}
        self._outcomes: dict[str, dict[RunKey, Outcome]] = {}

    @classmethod
    def of(cls, given: Cohort | Sequence[Cohort] | Pool) -> Pool:
        """A pool from whatever a caller has."""
        if isinstance(given, Pool):
            return given
        return cls([given] if isinstance(given, Cohort) else given)

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def name(self) -> str:
        """The studies that were pooled."""
        return " + ".join(cohort.name for cohort in self.cohorts)

    @cached_property
    def roles(self) -> tuple[str, ...]:
        """The role of every run's data."""
        return tuple(self._owner[key].roles[key.dataset] for key in self.keys)

    def trajectory(self, key: RunKey) -> Trajectory:
        """Source validation of a run."""
        return self._owner[key].usable[key]

    def folder(self, key: RunKey) -> Path:
        """Where a run is."""
        return self._owner[key].runs.folder(key)

    def target(self, key: RunKey) -> dict[str, FloatArray]:
        """Target metrics at every step of a run: means over its held-out domains; nan if none."""
        if key not in self._target:
            self._target[key] = self._read_target(key)
        return self._target[key]

    def _read_target(self, key: RunKey) -> dict[str, FloatArray]:
        steps = self.trajectory(key).steps.tolist()
        found = []
        for journal in self._owner[key].held_out(key).values():
            row = {step: i for i, step in enumerate(journal["step"].tolist())}
            at = np.array([row.get(step, -1) for step in steps])
            found.append(
                {
                    name: np.where(at >= 0, values[at], np.nan)
                    for name, values in journal.items()
                    if values.dtype.kind == "f"
                }
            )
        shared = [name for name in found[0] if all(name in other for other in found)]
        means = {name: np.mean([other[name] for other in found], axis=0) for name in shared}
        return Columns(means)

    def at_steps(self, outcome: Outcome) -> Outcome:
        """An outcome with the held-out results at its steps, averaged over them."""
        return Targets(self.folder(outcome.key), outcome.key.held_out).on(outcome)

    def outcomes(self, rule: Rule, *, scope: str = "run") -> Mapping[RunKey, Outcome]:
        """What a rule or method gives on every run that it has a result for, with held-out results.

        Results that a method leaves beside the runs may be there in some cohorts only.
        """
        setting = rule if isinstance(rule, Setting) else Setting(rule)
        name = f"{_name(setting)} {scope}"
        if name not in self._outcomes:
            found: dict[RunKey, Outcome] = {}
            refused: list[InputError] = []
            for cohort in self.cohorts:
                try:
                    made = cohort.outcomes(setting, held_out=True, scope=scope)
                except InputError as error:
                    if setting.row.expected or setting.row.method.is_rule:
                        raise
                    refused.append(error)
                    continue
                found.update({outcome.key: outcome for outcome in made})
            if not found:
                raise refused[0]
            self._outcomes[name] = found
        return self._outcomes[name]

    def columns(self, rule: Rule) -> Mapping[str, FloatArray]:
        """A rule's results over the runs, in key order; nan where there is none.

        ``source_<metric>`` and ``target_<metric>`` (fractions), ``gap_pp``, ``eligible``, and
        ``step`` (of an expectation: the mean step).
        """
        name = _name(rule)
        if name not in self._columns:
            found = self.outcomes(rule)
            rows = [_flat(found[key]) if key in found else {} for key in self.keys]
            self._columns[name] = as_columns(rows)
        return self._columns[name]

    def differences(
        self, rule: Rule, reference: Rule, metrics: Sequence[str], keep: BoolArray | None = None
    ) -> Differences:
        """A rule and a reference on the same runs."""
        mine, theirs = self.columns(rule), self.columns(reference)
        table = between(label(rule), label(reference), self.keys, metrics, mine, theirs)
        return table if keep is None else table.among(keep)

    def datasets(self, keep: BoolArray | None = None) -> str:
        """The data sets of all runs or of the marked ones, as titles name them."""
        kept = [True] * len(self) if keep is None else keep.tolist()
        names = {key.dataset for key, marked in zip(self.keys, kept, strict=True) if marked}
        return listed(sorted(names))

    def groups(self, by: Sequence[str]) -> list[Group]:
        """Runs split by columns of the run key, in order."""
        labels = [tuple(str(key_columns(key)[name]) for name in by) for key in self.keys]
        return self.split(labels, sorted(set(labels)))

    def split(
        self, labels: Sequence[tuple[str, ...]], order: Sequence[tuple[str, ...]]
    ) -> list[Group]:
        """Runs split by a label that each of them has, in a given order."""
        return [self._group(each, np.array([one == each for one in labels])) for each in order]

    def scopes(self) -> list[Group]:
        """Evaluation data, development data, and both where there are both."""
        present = sorted(set(self.roles), reverse=True)  # what the study is about comes first
        found = [Group((), role, np.array([r == role for r in self.roles])) for role in present]
        return found if len(found) == 1 else [*found, self.everything()]

    def everything(self) -> Group:
        """All runs."""
        return self._group((), np.ones(len(self), dtype=bool))

    def _group(self, labels: tuple[str, ...], keep: BoolArray) -> Group:
        roles = {role for role, kept in zip(self.roles, keep.tolist(), strict=True) if kept}
        return Group(labels, roles.pop() if len(roles) == 1 else BOTH, keep)


def label(rule: Rule) -> str:
    """What tables call a rule."""
    return rule.label if isinstance(rule, Setting) else rule


def _name(rule: Rule) -> str:
    """What tells one rule with its parameters from another, whatever it is called."""
    setting = rule if isinstance(rule, Setting) else Setting(rule)
    return f"{setting.rule} {sorted(setting.params.items())!r}"


def as_columns(rows: Sequence[Mapping[str, Any]]) -> Columns:
    """One column per name over the rows; nan where a row has none."""
    names = dict.fromkeys(name for row in rows for name in row)
    return Columns(
        {
            column: np.array([row.get(column, np.nan) for row in rows], dtype=np.float64)
            for column in names
        }
    )


def _flat(outcome: Outcome) -> dict[str, Any]:
    targets = list(outcome.targets.values())
    target = targets[0] if len(targets) == 1 else _mean_target(targets)
    return {
        "gap_pp": outcome.gap_pp,
        "eligible": outcome.eligible,
        "step": sum(outcome.steps) / len(outcome.steps) if outcome.steps else float("nan"),
        **{f"source_{name}": value for name, value in outcome.source.items()},
        **{f"target_{name}": value for name, value in target.items()},
    }


def _mean_target(targets: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means over held-out domains of the metrics that all of them have."""
    shared = [name for name in targets[0] if all(name in t for t in targets)] if targets else []
    return {name: float(np.mean([t[name] for t in targets])) for name in shared}
