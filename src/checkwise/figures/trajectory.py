"""One run: source accuracy with the tolerance band, checkpoints coloured by reliability."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from checkwise.figures import style
from checkwise.figures.run_facts import TrajectoryFacts, median_run, trajectory_facts
from checkwise.records import RunKey
from checkwise.selection import select, select_many
from checkwise.study.pool import Pool

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def example(pool: Pool) -> RunKey:
    """The run with the median number of feasible checkpoints; no target is looked at."""
    runs = {key: pool.trajectory(key) for key in pool.keys}
    chosen = select_many(runs, "ac-nc")
    return pool.keys[median_run([len(chosen[key].feasible_steps) for key in pool.keys])]


def facts(pool: Pool, key: RunKey | None = None) -> TrajectoryFacts:
    """What is drawn about one run: the given one, or a typical one."""
    key = key or example(pool)
    run = pool.trajectory(key)
    return trajectory_facts(run, select(run, "ac-nc"), [select(run, "source-acc")], str(key))


def draw(found: TrajectoryFacts) -> Figure:
    """Accuracy over steps; the band holds the feasible checkpoints."""
    figure = style.new(1.4, 2.6)
    axes = style.plain(
        figure.add_subplot(), xlabel="Step", ylabel="Source accuracy (%)", title=found.name
    )
    steps, accuracy = np.array(found.steps), np.array(found.accuracy)
    best = np.nanmax(accuracy)
    axes.axhspan(
        best - found.delta_pp,
        best,
        color=style.COLOURS[5],
        alpha=0.25,
        lw=0,
        label=f"within {found.delta_pp:g} points",
    )
    axes.plot(steps, accuracy, color=style.GREY, lw=0.7, zorder=1)
    if found.reliability is None:
        axes.scatter(steps, accuracy, s=14, color=style.COLOURS[0], zorder=2)
    else:
        values = np.array(found.metrics[found.reliability])
        inside = values[np.array(found.feasible)]
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
        bar.set_label(f"Source {found.reliability.upper()}", fontsize=7)
        bar.ax.tick_params(labelsize=6)
    for i, mark in enumerate(found.marks):
        axes.scatter(
            [mark.step],
            [accuracy[found.steps.index(mark.step)]],
            s=90,
            facecolors="none",
            edgecolors=style.colour(mark.rule),
            marker=style.MARKERS[i],
            linewidths=1.4,
            zorder=3,
            label=f"{mark.rule}: step {mark.step}",
        )
    # The plateau is what matters; the rise from chance would flatten it.
    floor = max(float(np.nanmin(accuracy)), best - max(20 * found.delta_pp, 5))
    axes.set_ylim(floor, best + 0.08 * (best - floor))
    style.legend(axes, loc="lower right")
    return figure
