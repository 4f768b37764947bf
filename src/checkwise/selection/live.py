"""Selection while training runs: add checkpoints as they come, ask at any time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from checkwise.errors import InputError
from checkwise.metrics import BANDWIDTH, BINS
from checkwise.records import CheckpointRecord, Recorder, Records, Trajectory, as_names, facts_of
from checkwise.selection.averages import MEMBERS_DELTA_PP, members
from checkwise.selection.choice import Choice
from checkwise.selection.choosing import check_needs, select
from checkwise.selection.columns import Columns, Weighted, weigh
from checkwise.selection.constraint import Points
from checkwise.selection.defaults import DEFAULT_RULE, RuleWithReason
from checkwise.selection.guard import choices, may_be_chosen
from checkwise.selection.result import Selection
from checkwise.selection.rulebook import Rule, find_metrics, get_rule
from checkwise.words import listed


class LiveSelection:
    """A selection that grows with the run; see ``LiveSelector``, which can keep it in a file.

    Adding takes the same time however long the run is. ``choice``, ``keep`` and ``droppable`` look
    at the checkpoints that could still be chosen when they were last asked, and at what was added
    since; ``selection`` looks at the whole run.

    Args:
        rule: a name from :func:`rules`, or a whole :class:`Choice`; by default ac-nc.
        bins, bandwidth: settings of the calibration errors.
        held_out, sources: domains that ``add`` skips unread, and domains that are validation
            although their names look held out (``test``, ``ood`` …).
        settings: as for :func:`select`. The tolerance "paired" needs ``(logits, labels)`` in
            ``add``, the same examples in the same order each time; their independent units can
            follow, as ``(logits, labels, groups)``.
    """

    def __init__(
        self,
        rule: str | Rule | Choice | None = None,
        *,
        bins: int = BINS,
        bandwidth: float = BANDWIDTH,
        held_out: str | Iterable[str] | None = None,
        sources: str | Iterable[str] | None = None,
        **settings: Any,
    ):
        asked = Choice.of(rule, **settings)
        self._rule = get_rule(DEFAULT_RULE) if asked.rule is None else asked.named
        tolerance: dict[str, Any] = {"tolerance": None, "alpha": None} | asked.kind.as_dict()
        self.asked = replace(asked, rule=self._rule, params=asked.complete(self._rule), **tolerance)
        find_metrics(self._rule, self.asked.params)
        names = as_names(held_out), as_names(sources)
        self._recorder = Recorder(
            "logits", bins, bandwidth, *names, keeps_examples=self.needs_examples
        )
        self._without_weights: set[int] = set()
        self._selection: Selection | None = None
        self._near = _NearBest(self._recorder.records)

    def add(self, step: int, outputs: Mapping[str, Any]) -> None:
        """Measure one checkpoint on source validation; a step added again replaces its record.

        Args:
            step: training step.
            outputs: domain → ``(logits, labels)``, a ``Report`` from an ``Accumulator``, or plain
                metrics as ``{"accuracy": 0.9, "nll": 0.3, "n": 500}``.
        """
        self._put(self._measured(step, outputs))

    def _measured(self, step: int, outputs: Mapping[str, Any]) -> CheckpointRecord:
        """A record, with what every example said where that is kept."""
        record = self._recorder.measure(step, outputs)
        if record.diverged:
            return record
        grouped = [name for name, domain in record.domains.items() if domain.groups]
        if grouped and len(grouped) < len(record.domains):
            other = next(name for name in record.domains if name not in grouped)
            raise InputError(
                f"Expected groups of every validation set at step {step}, or of none, but "
                f"{grouped[0]!r} has them and {other!r} has none: add groups to each.",
                code="differs",
            )
        for name, domain in record.domains.items():
            if domain.hits is None and self.needs_examples:
                raise InputError(
                    f"Expected (logits, labels) of {name!r} at step {step} for tolerance "
                    f"{self.asked.kind.name!r}, but got metrics alone: it compares checkpoints "
                    'example by example; add outputs, or use tolerance "fixed".',
                    code="missing",
                )
            if domain.said is None and self._recorder.keeps_logits:
                raise InputError(
                    f"Expected (logits, labels) of {name!r} at step {step} to keep its "
                    "predictions, but got metrics alone: add outputs, or the result of an "
                    "Accumulator(…, logits=True), or leave out predictions and calibrator.",
                    code="missing",
                )
        return record

    def _slim(self, record: CheckpointRecord) -> CheckpointRecord:
        """A record with only what a tolerance needs of its examples: long runs stay small."""
        return replace(
            record,
            domains={
                name: replace(
                    one, losses=None, said=None, hits=one.hits if self.needs_examples else None
                )
                for name, one in record.domains.items()
            },
        )

    def preview(self, step: int, outputs: Mapping[str, Any]) -> LiveSelection:
        """What ``add`` would lead to; this selection stays as it is."""
        ahead = copy(self)
        ahead.__class__ = LiveSelection  # whatever writes records down has no part in it
        ahead._recorder = self._recorder.copy()
        ahead._without_weights = self._without_weights - {step}
        ahead.add(step, outputs)
        return ahead

    def _put(self, record: CheckpointRecord) -> None:
        self._recorder.put(self._slim(record))
        self._selection = None

    @property
    def settings(self) -> dict[str, Any]:
        """Everything besides the records that decides the choice."""
        recorder = self._recorder
        return {
            "choice": self.chosen_by,
            "bins": recorder.bins,
            "bandwidth": recorder.bandwidth,
            "held_out": recorder.held_out,
            "sources": recorder.sources,
        }

    @property
    def chosen_by(self) -> dict[str, Any]:
        """How it chooses, with every parameter of the rule, as JSON."""
        return self.asked.as_dict()

    @property
    def looks_at(self) -> tuple[str, ...]:
        """The metrics that the rule uses."""
        return self._rule.looks_at(self.asked.params)

    @property
    def needs_examples(self) -> bool:
        """Whether a tolerance compares checkpoints example by example."""
        return not self.asked.kind.fixed

    @property
    def records(self) -> Mapping[int, CheckpointRecord]:
        """The records so far, by step."""
        return self._recorder.records

    @property
    def steps(self) -> tuple[int, ...]:
        """The steps added so far, in order."""
        return tuple(sorted(self._recorder.records))

    @property
    def domains(self) -> tuple[str, ...]:
        """The validation sets of what was added, also where every checkpoint diverged."""
        records = self._recorder.records
        return tuple(records[min(records)].domains) if records else ()

    @property
    def trajectory(self) -> Trajectory:
        """Everything added so far."""
        return Trajectory(**self._recorder.facts())

    @property
    def selection(self) -> Selection | None:
        """The selection among the checkpoints so far; None while there is none to choose.

        A training that is resumed may replace the record of the best step by a worse one, so that
        a step whose weights were deleted is near-best again. Such steps are left out, with a note.
        """
        if self._selection is None:
            self._selection = self._select()
        return self._selection

    def _select(self) -> Selection | None:
        records = self._recorder.records.values()
        if all(record.diverged for record in records):
            return None
        trajectory = self.trajectory
        chosen = select(trajectory, self.asked)
        if all(record.step in self._without_weights or record.diverged for record in records):
            return chosen
        # Without the best, others are near-best, which may be gone too.
        while gone := self._without_weights.intersection(chosen.feasible_steps):
            steps = listed([str(step) for step in sorted(gone)])
            note = f"left out, because the weights were deleted: {steps}"
            trajectory = _without(trajectory, frozenset(gone), note)
            chosen = select(trajectory, self.asked)
        return chosen

    def among(self, steps: Iterable[int]) -> Chosen:
        """The choice if there were only some of the checkpoints."""
        records, those = self._recorder.records, set(steps)
        measured = tuple(step for step in self.steps if step in those)
        if all(records[step].diverged for step in measured):
            return Chosen(None, measured)
        others = frozenset(records).difference(measured)
        if not others and not self._without_weights:
            return Chosen(self.selection, measured)
        return Chosen(select(_without(self.trajectory, others), self.asked), measured)

    @property
    def choice(self) -> int | None:
        """The step that would be chosen if training stopped now."""
        table = self._near_best()
        if table is not None:
            index = choices(self._rule, self.asked.params, table, guard=self.asked.guard)
            return int(table["step"][index])
        return None if self.selection is None else self.selection.step

    def _near_best(self) -> Columns | None:
        """The columns of what can still be chosen; None where the whole run has to be looked at."""
        if self._selection is not None or self.needs_examples:
            return None
        near = self._near = self._near.of(self._recorder.records)
        table = near.columns(self)
        gone = table is not None and self._without_weights.intersection(table["step"].tolist())
        return None if gone else table

    def members(
        self, k: int | None = None, *, delta_pp: Points = MEMBERS_DELTA_PP
    ) -> tuple[int, ...]:
        """The steps of an average if training stopped now: :func:`members` of those with weights.

        The policy ``KeepMembers(delta_pp)`` keeps all of them.
        """
        chosen = self.among(self._with_weights).selection
        return () if chosen is None else members(chosen, k, delta_pp=delta_pp)

    @property
    def _with_weights(self) -> tuple[int, ...]:
        """Steps whose weights were not deleted."""
        return tuple(step for step in self.steps if step not in self._without_weights)

    @property
    def keep(self) -> tuple[int, ...]:
        """Steps whose weights have to stay: this record or a later one may make them the choice."""
        if self._rule.prunable:
            if (table := self._near_best()) is not None:
                return tuple(table["step"].tolist())
            if self.selection is not None:
                return Chosen(self.selection, ()).keep
        return self.steps

    @property
    def droppable(self) -> tuple[int, ...]:
        """Steps whose weights can be deleted: no later record can make the rule choose them.

        Empty for rules to which this does not apply (``Rule.prunable``).
        """
        return tuple(sorted(self._recorder.records.keys() - set(self.keep)))


class _NearBest:
    """The checkpoints that may still be chosen, by the records that were looked at so far."""

    def __init__(self, records: Records) -> None:
        self._records, self._rewritten, self._seen = records, records.rewritten, 0
        self._weighted: Weighted | None = None
        self._comparable = True

    def of(self, records: Records) -> _NearBest:
        """This one, or a new one where earlier records are not what they were."""
        as_before = self._records is records and self._rewritten == records.rewritten
        return self if as_before else _NearBest(records)

    def columns(self, live: LiveSelection) -> Columns | None:
        """The columns of these checkpoints, with what was recorded since they were asked for."""
        rule, asked = live._rule, live.asked
        unseen = len(self._records) - self._seen
        new = [one for one in islice(reversed(self._records.values()), unseen) if not one.diverged]
        self._seen = len(self._records)
        if new and self._comparable:
            run = Trajectory(**facts_of(sorted(new, key=lambda record: record.step)))
            check_needs(run, RuleWithReason(rule, params=dict(asked.params)), asked)
            added: Weighted | None = weigh(run, asked)
            if self._weighted is not None and added is not None:
                added = self._weighted.joined(added)
            self._weighted, self._comparable = added, added is not None
        if self._weighted is None:
            return None
        if new:
            table = _ColumnsSoFar(self._weighted, live)
            stay = may_be_chosen(rule, asked.params, table, guard=asked.guard)
            self._weighted = self._weighted.taken(stay)
        return _ColumnsSoFar(self._weighted, live)


class _ColumnsSoFar(Columns):
    """Columns of a part of a run that stand for the whole of it."""

    def __init__(self, weighted: Weighted, live: LiveSelection) -> None:
        super().__init__([weighted], live.asked, stacked=False)
        self._live = live

    @property
    def identities(self) -> list[str]:
        return [self._live.trajectory.identity]


@dataclass(frozen=True)
class Chosen:
    """A selection as policies of retention see it: what was measured, and what may be chosen."""

    selection: Selection | None
    steps: tuple[int, ...]

    @classmethod
    def of(cls, selection: Selection) -> Chosen:
        """A run that is over."""
        return cls(selection, tuple(selection.trajectory.steps.tolist()))

    @property
    def keep(self) -> tuple[int, ...]:
        """The steps that may still be chosen."""
        s = self.selection
        if s is None:
            return self.steps
        stay = may_be_chosen(s.rule_used, s.params, s.columns, guard=s.guard is not None)
        return tuple(s.trajectory.steps[stay].tolist())


def _without(run: Trajectory, steps: frozenset[int], *notes: str) -> Trajectory:
    """A run without some of its checkpoints."""
    stay = ~np.isin(run.steps, list(steps))
    return replace(
        run,
        examples=run.examples and run.examples.subset(run.steps[stay].tolist()),
        steps=run.steps[stay],
        values={name: values[stay] for name, values in run.values.items()},
        correct=None if run.correct is None else run.correct[stay],
        diverged=run.diverged[stay],
        paths=run.paths and tuple(p for p, s in zip(run.paths, stay, strict=True) if s),
        notes=(*run.notes, *notes),
    )
