"""What the page says about one run, collected before anything is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from checkwise.errors import NoGuaranteeError
from checkwise.metrics import METRICS
from checkwise.records import Trajectory
from checkwise.selection import Guarantee, Selection, select
from checkwise.selection.columns import view_of

DRAWN = ("nll", "cwece")


@dataclass(frozen=True)
class Mark:
    """A rule's choice on the plot."""

    rule: str
    step: int


@dataclass(frozen=True)
class TrajectoryFacts:
    """Source validation over the steps of one run, on the reported scale.

    Args:
        name: which run.
        steps: every step, in order.
        accuracy: mean source accuracy in percent; nan where diverged.
        feasible: inside the tolerance.
        delta_pp: the tolerance in points.
        metrics: ``nll`` and ``cwece`` where the run has them.
        marks: the choices shown.
    """

    name: str
    steps: tuple[int, ...]
    accuracy: tuple[float, ...]
    feasible: tuple[bool, ...]
    delta_pp: float
    metrics: Mapping[str, tuple[float, ...]]
    marks: tuple[Mark, ...]

    @property
    def reliability(self) -> str | None:
        """The metric that colours feasible checkpoints."""
        return next(iter(self.metrics), None)


@dataclass(frozen=True)
class RunFacts:
    """Everything on the page of a single run."""

    title: str
    rule: str
    step: int
    path: str | None
    accuracy: float
    gap_pp: float
    eligible: int
    checkpoints: int
    explanation: str
    notes: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    bound: Guarantee | None
    no_bound: str
    trajectory: TrajectoryFacts


def trajectory_facts(
    run: Trajectory, selection: Selection, others: Sequence[Selection], name: str
) -> TrajectoryFacts:
    """The plot's numbers; the tolerance is that of ``selection``."""
    columns = view_of(run, selection.weights, selection.worst_domain).columns
    drawn = {
        metric: tuple((METRICS[metric].scale * columns[metric]).tolist())
        for metric in DRAWN
        if metric in columns
    }
    return TrajectoryFacts(
        name=name,
        steps=tuple(run.steps.tolist()),
        accuracy=tuple((100 * columns["accuracy"]).tolist()),
        feasible=tuple(selection.ranking.eligible.tolist()),
        delta_pp=float(selection.tolerance_pp) if selection.rule_used.constrained else 0.0,
        metrics=drawn,
        marks=tuple(Mark(s.rule, s.step) for s in (*others, selection)),
    )


def run_facts(run: Trajectory, rule: str | None = None, **params: object) -> RunFacts:
    """Choose a checkpoint and collect the reasons.

    Without ``rule``: the best one that the metrics of the run allow, as in :func:`select`.
    """
    chosen = select(run, rule, **params)  # type: ignore[arg-type]
    usual = [select(run, "source-acc")] if chosen.rule != "source-acc" else []
    name = str(run.key) if run.key else "This run"
    bound, no_bound = _bound(chosen)
    table = chosen.table
    columns = tuple(name for name in table if not str(name).endswith("_normalised"))
    return RunFacts(
        title=name,
        rule=chosen.rule,
        step=chosen.step,
        path=chosen.path,
        accuracy=100 * chosen.accuracy,
        gap_pp=chosen.gap_pp,
        eligible=len(chosen.feasible_steps),
        checkpoints=len(run),
        explanation=chosen.explain(),
        notes=run.notes,
        columns=tuple(str(column) for column in columns),
        rows=tuple(tuple(row) for row in table[list(columns)].itertuples(index=False)),
        bound=bound,
        no_bound=no_bound,
        trajectory=trajectory_facts(run, chosen, usual, name),
    )


def _bound(selection: Selection) -> tuple[Guarantee | None, str]:
    try:
        return selection.guarantee(), ""
    except NoGuaranteeError as error:
        return None, str(error)


def median_run(sizes: Sequence[int]) -> int:
    """Index of the (lower) median; the first where several share it. No target is looked at."""
    order = np.argsort(np.asarray(sizes), kind="stable")
    middle = sizes[int(order[(len(sizes) - 1) // 2])]
    return list(sizes).index(middle)
