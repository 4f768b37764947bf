"""The best of several runs: their chosen checkpoints are the candidates of one more choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from checkwise.records import Trajectory
from checkwise.selection.default_rule import REFERENCE
from checkwise.selection.result import Selection
from checkwise.selection.rules import get_rule
from checkwise.selection.select import select


def best_run(chosen: Sequence[Selection]) -> int | None:
    """The run whose choice the same rule chooses among all choices; None where none can be.

    Runs are compared where one rule chose in them on the same validation sets. Where the guard
    chose, or the rule looks at accuracy and time alone, the most accurate run is the best; of
    equals the first.
    """
    first = chosen[0]
    alike = {(one.rule, repr(one.params), one.trajectory.domains) for one in chosen}
    candidates = _candidates(chosen) if len(alike) == 1 else None
    if candidates is None or (first.choice.weights == "sample" and candidates.counts is None):
        return None
    rule, params = first.rule_used, dict(first.params)
    if not first.looked_at or any(one.guard_acted for one in chosen):
        rule, params = get_rule(REFERENCE), {}
    if not set(rule.looks_at(params)) <= set(candidates.metrics):
        return None
    asked = replace(first.choice, rule=rule, params=params, guard=False, tolerance=None, alpha=None)
    return select(candidates, asked).index


def _candidates(chosen: Sequence[Selection]) -> Trajectory:
    """The chosen checkpoints as one run."""
    runs = [one.trajectory for one in chosen]
    sizes = {None if run.counts is None else tuple(run.counts) for run in runs}
    return Trajectory(
        steps=range(len(chosen)),
        domains=runs[0].domains,
        values=_rows(chosen, "values"),
        pooled=_rows(chosen, "pooled"),
        counts=sizes.pop() if len(sizes) == 1 else None,
    )


def _rows(chosen: Sequence[Selection], kind: str) -> dict[str, list[Any]]:
    """The metrics that all have, at what was chosen."""
    tables = [getattr(one.trajectory, kind) for one in chosen]
    return {
        name: [table[name][one.index] for table, one in zip(tables, chosen, strict=True)]
        for name in tables[0]
        if all(name in table for table in tables)
    }
