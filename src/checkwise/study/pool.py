"""One or several cohorts as one set of runs, with every rule's results as columns over the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from checkwise.errors import InputError
from checkwise.records import RunKey, Trajectory
from checkwise.selection import DEFAULT_RULE, REFERENCE, Columns, Selection
from checkwise.study.cohort import MAIN_METRICS, Cohort
from checkwise.study.compare import BoolArray, Differences, marked, pair
from checkwise.study.heldout import Targets
from checkwise.study.method_table import Method, method
from checkwise.study.outcome import Outcome, RunColumns, columns_over, key_labels
from checkwise.words import listed

Row: TypeAlias = str | Method

BOTH_ROLES = "development + evaluation"


@dataclass(frozen=True, eq=False)
class Group:
    """Some of the runs of a pool: what they have in common, the role of their data, which."""

    labels: tuple[str, ...]
    role: str
    keep: BoolArray


class Pool:
    """Usable runs of cohorts in key order, so that draws do not depend on how they were planned.

    Tables and figures of one contrast are about ``rule`` and ``reference``; the table for a paper
    has ``others`` as well. No run may be in two cohorts.
    """

    def __init__(
        self,
        cohorts: Sequence[Cohort],
        *,
        rule: Row = DEFAULT_RULE,
        reference: Row = REFERENCE,
        others: Sequence[Row] = (),
    ):
        self.rule, self.reference = method(rule), method(reference)
        self.others = tuple(map(method, others))
        if self.rule.label == self.reference.label:
            raise InputError(
                f"Expected a rule and another one to compare it with, but got {self.rule.label} "
                "as both: choose another one or another --reference."
            )
        self.cohorts = tuple(cohorts)
        self._owner: dict[RunKey, Cohort] = {}
        for cohort in self.cohorts:
            for key in cohort.usable:
                if key in self._owner:
                    raise InputError(
                        f"Expected each run in one study, but {key} is in {self._owner[key].path} "
                        f"and {cohort.path}: open only one of them.",
                        code="ambiguous",
                    )
                self._owner[key] = cohort
        if not self._owner:
            raise InputError(
                f"Expected at least one finished run in {self.cohorts[0].path}, but got none: "
                "`checkwise study run` with the same study finishes runs.",
                code="empty",
            )
        self.keys: tuple[RunKey, ...] = tuple(sorted(self._owner))
        self.name = " + ".join(cohort.name for cohort in self.cohorts)
        self.roles = tuple(self._owner[key].roles[key.dataset] for key in self.keys)
        self._columns: dict[str, RunColumns] = {}
        self._target: dict[RunKey, RunColumns] = {}
        self._outcomes: dict[str, dict[RunKey, Outcome]] = {}

    @classmethod
    def of(cls, cohorts: Cohort | Sequence[Cohort] | Pool) -> Pool:
        if isinstance(cohorts, Pool):
            return cohorts
        return cls([cohorts] if isinstance(cohorts, Cohort) else cohorts)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def contrast(self) -> str:
        return f"{self.rule.label} − {self.reference.label}"

    def measured(self, measures: Sequence[str]) -> list[str]:
        """Those of some measures that held-out results have; imported logs may lack main ones."""
        lacking = {m for c in self.cohorts for m in MAIN_METRICS if m not in c.main_metrics}
        return [measure for measure in measures if measure not in lacking]

    def trajectory(self, key: RunKey) -> Trajectory:
        return self._owner[key].usable[key]

    def folder(self, key: RunKey) -> Path:
        return self._owner[key].runs.folder(key)

    def target(self, key: RunKey) -> RunColumns:
        """Target metrics at every step of a run: means over its held-out domains; nan if none."""
        if key not in self._target:
            steps = self.trajectory(key).steps.tolist()
            self._target[key] = self._owner[key].target_at(key, steps)
        return self._target[key]

    def at_steps(self, outcome: Outcome) -> Outcome:
        """An outcome with the held-out results at its steps, averaged over them."""
        return Targets(self.folder(outcome.key), outcome.key.held_out).on(outcome)

    def selections(self, row: Row) -> dict[RunKey, Selection]:
        """The choice of a rule in every run, from source validation."""
        asked = method(row)
        asked.check_is_rule()
        chosen = {
            outcome.key: outcome.selection
            for cohort in self.cohorts
            for outcome in cohort.outcomes(asked, held_out=False)
        }
        return {key: one for key in self.keys if (one := chosen[key]) is not None}

    def outcomes(self, row: Row, *, scope: str = "run") -> Mapping[RunKey, Outcome]:
        """A rule or method with held-out results, on every run that it has a result for."""
        asked = method(row)
        name = f"{asked.identity} {scope}"
        if name not in self._outcomes:
            self._outcomes[name] = self._evaluated(asked, scope)
        return self._outcomes[name]

    def _evaluated(self, row: Method, scope: str) -> dict[RunKey, Outcome]:
        outcomes: dict[RunKey, Outcome] = {}
        refused: list[InputError] = []
        for cohort in self.cohorts:
            try:
                evaluated = self._of_cohort(cohort, row, scope)
            except InputError as error:
                if row.expected or row.is_rule:
                    raise
                refused.append(error)
                continue
            outcomes.update({outcome.key: outcome for outcome in evaluated})
        if not outcomes:
            raise refused[0]
        return outcomes

    def _of_cohort(self, cohort: Cohort, row: Method, scope: str) -> tuple[Outcome, ...]:
        return cohort.outcomes(row, held_out=True, scope=scope)

    def columns(self, row: Row) -> RunColumns:
        """A rule's results (see :attr:`Outcome.row`) over the runs, in key order; nan for none."""
        name = method(row).identity
        if name not in self._columns:
            self._columns[name] = columns_over(self.outcomes(row), self.keys)
        return self._columns[name]

    def differences(
        self, rule: Row, reference: Row, metrics: Sequence[str], keep: BoolArray | None = None
    ) -> Differences:
        """A rule and a reference on the same runs; nan where either has no result."""
        sides = (self.columns(rule), self.columns(reference))
        table = pair(label(rule), label(reference), self.keys, metrics, *sides)
        return table if keep is None else table.among(keep)

    def datasets(self, keep: BoolArray | None = None) -> str:
        keys = self.keys if keep is None else marked(self.keys, keep)
        return listed(sorted({key.dataset for key in keys}))

    def groups(self, by: Sequence[str], *, whole: bool = False) -> list[Group]:
        """Runs split by columns of the run key, in order; then all of every role, if ``whole``."""
        labels = key_labels(self.keys, by)
        every = ("all",) * len(by)
        everything = [replace(group, labels=every) for group in self.by_role()] if whole else []
        return [*self.split(labels, sorted(set(labels))), *everything]

    def split(
        self, labels: Sequence[tuple[str, ...]], order: Sequence[tuple[str, ...]]
    ) -> list[Group]:
        return [
            self._group(shared, np.array([label == shared for label in labels])) for shared in order
        ]

    def by_role(self) -> list[Group]:
        """Evaluation data, development data, and both where there are both."""
        present = sorted(set(self.roles), reverse=True)  # what the study is about comes first
        groups = [Group((), role, np.array([r == role for r in self.roles])) for role in present]
        return groups if len(groups) == 1 else [*groups, self.everything()]

    def among(self, parts: Mapping[str, BoolArray]) -> list[Group]:
        """The runs of every role that are marked, as far as there are any, by what they are."""
        return [
            Group((name,), group.role, group.keep & keep)
            for group in self.by_role()
            for name, keep in parts.items()
            if (group.keep & keep).any()
        ]

    def everything(self) -> Group:
        return self._group((), np.ones(len(self), dtype=bool))

    def _group(self, labels: tuple[str, ...], keep: BoolArray) -> Group:
        roles = {role for role, kept in zip(self.roles, keep.tolist(), strict=True) if kept}
        return Group(labels, roles.pop() if len(roles) == 1 else BOTH_ROLES, keep)


def label(row: Row) -> str:
    return method(row).label


class Rehearsal(Pool):
    """A pool that reads no target; its numbers mean nothing and must not be shown."""

    @classmethod
    def of_pool(cls, pool: Pool) -> Rehearsal:
        return cls(pool.cohorts, rule=pool.rule, reference=pool.reference, others=pool.others)

    def target(self, key: RunKey) -> RunColumns:
        """Source metrics at every step of a run."""
        run = self.trajectory(key)
        columns = Columns.of(run)
        return RunColumns({name: np.asarray(columns[name]) for name in run.metrics})

    def at_steps(self, outcome: Outcome) -> Outcome:
        return replace(outcome, targets=dict.fromkeys(outcome.key.held_out, outcome.source))

    def _of_cohort(self, cohort: Cohort, row: Method, scope: str) -> tuple[Outcome, ...]:
        chosen = cohort.outcomes(row, held_out=False, scope=scope)
        return tuple(self.at_steps(outcome) for outcome in chosen)
