"""One run: source accuracy with the tolerance band, checkpoints coloured by reliability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from checkwise.metrics import METRICS
from checkwise.records import RunKey, Trajectory
from checkwise.selection import Selection
from checkwise.study import Pool
from checkwise.study.figures import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWN = ("nll", "cwece")


@dataclass(frozen=True)
class Mark:
    """A rule's choice on the plot."""

    rule: str
    step: int


@dataclass(frozen=True)
class TrajectoryFacts:
    """Source validation over the steps of one run, on the reported scale."""

    name: str  # which run
    steps: tuple[int, ...]  # every step, in order
    accuracy: tuple[float, ...]  # mean source accuracy in percent; nan where diverged
    feasible: tuple[bool, ...]  # inside the tolerance
    delta_pp: float  # the tolerance in points
    metrics: Mapping[str, tuple[float, ...]]  # ``nll`` and ``cwece`` where the run has them
    marks: tuple[Mark, ...]  # the choices shown

    @property
    def reliability(self) -> str | None:
        return next(iter(self.metrics), None)


def median_run(sizes: Sequence[int]) -> int:
    """Index of the (lower) median; the first where several share it. No target is looked at."""
    order = np.argsort(np.asarray(sizes), kind="stable")
    middle = sizes[int(order[(len(sizes) - 1) // 2])]
    return list(sizes).index(middle)


def example(pool: Pool) -> RunKey:
    """The run with the median number of feasible checkpoints; no target is looked at."""
    chosen = pool.selections(pool.rule)
    return pool.keys[median_run([len(chosen[key].feasible_steps) for key in pool.keys])]


def facts(pool: Pool, key: RunKey | None = None) -> TrajectoryFacts:
    chosen = [pool.selections(row) for row in (pool.rule, pool.reference)]
    key = key or example(pool)
    rule, reference = (of_rule[key] for of_rule in chosen)
    return trajectory_facts(pool.trajectory(key), rule, [reference], str(key))


def trajectory_facts(
    run: Trajectory, selection: Selection, others: Sequence[Selection], name: str
) -> TrajectoryFacts:
    columns = selection.columns
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
        delta_pp=float(selection.tolerance_pp) if selection.keeps_accuracy else 0.0,
        metrics=drawn,
        marks=tuple(Mark(s.rule, s.step) for s in (*others, selection)),
    )


def draw(facts_of: TrajectoryFacts) -> Figure:
    figure = style.new_figure(1.4, 2.6)
    axes = style.plain_axes(
        figure.add_subplot(), xlabel="Step", ylabel="Source accuracy (%)", title=facts_of.name
    )
    steps, accuracy = np.array(facts_of.steps), np.array(facts_of.accuracy)
    best = np.nanmax(accuracy)
    axes.axhspan(
        best - facts_of.delta_pp,
        best,
        color=style.COLOURS[5],
        alpha=0.25,
        lw=0,
        label=f"within {facts_of.delta_pp:g} points",
    )
    axes.plot(steps, accuracy, color=style.GREY, lw=0.7, zorder=1)
    if facts_of.reliability is None:
        axes.scatter(steps, accuracy, s=14, color=style.COLOURS[0], zorder=2)
    else:
        values = np.array(facts_of.metrics[facts_of.reliability])
        inside = values[np.array(facts_of.feasible)]
        drawn = axes.scatter(
            steps,
            accuracy,
            c=values,
            cmap=style.SEQUENTIAL,
            # Colours tell feasible checkpoints apart; the rest may saturate.
            vmin=float(inside.min()),
            vmax=float(inside.max()),
            s=16,
            zorder=2,
            edgecolors="none",
        )
        bar = figure.colorbar(drawn, ax=axes, extend="both")
        bar.set_label(f"Source {facts_of.reliability.upper()}", fontsize=7)
        bar.ax.tick_params(labelsize=6)
    for i, mark in enumerate(facts_of.marks):
        axes.scatter(
            [mark.step],
            [accuracy[facts_of.steps.index(mark.step)]],
            s=90,
            facecolors="none",
            edgecolors=style.rule_colour(mark.rule),
            marker=style.MARKERS[i],
            linewidths=1.4,
            zorder=3,
            label=f"{mark.rule}: step {mark.step}",
        )
    # The plateau is what matters; the rise from chance would flatten it.
    floor = max(float(np.nanmin(accuracy)), best - max(20 * facts_of.delta_pp, 5))
    axes.set_ylim(floor, best + 0.08 * (best - floor))
    style.legend(axes, loc="lower right")
    return figure
