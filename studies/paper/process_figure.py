"""Draw how the default rule chooses, on the run that the paper shows: study/images/process.png.

Run by ``make pages``. Everything in the picture is computed from the packed journal; process.json
has the same in numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from checkwise.metrics import METRICS
from checkwise.records import Trajectory
from checkwise.selection import DEFAULT_RULE, REFERENCE, select
from checkwise.study.figures import COLOURS, GREY, legend_below, new_figure, plain_axes, rule_colour
from studies.paper.cohort_facts import plain
from studies.paper.cohort_figures import IMAGES, save
from studies.paper.packed import packed_cohorts
from studies.paper.study_figures import PAPERS_RUN
from studies.paper.tables import COHORTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FACTS = IMAGES / "process.json"
TITLES = {"nll": "NLL", "cwece": "CwECE"}


@dataclass(frozen=True)
class Process:
    """One choice, step by step.

    Args:
        run: which run.
        rule, reference: what chooses, and what the most accurate checkpoint is the choice of.
        delta_pp: the tolerance.
        steps: every step.
        accuracy: mean source accuracy in percent.
        feasible: the steps within the tolerance.
        rescaled: by objective, 0–1 over the feasible steps.
        distance: of every feasible step.
        chosen, most_accurate: steps.
    """

    run: str
    rule: str
    reference: str
    delta_pp: float
    steps: tuple[int, ...]
    accuracy: tuple[float, ...]
    feasible: tuple[int, ...]
    rescaled: dict[str, tuple[float, ...]]
    distance: tuple[float, ...]
    chosen: int
    most_accurate: int

    def accuracy_at(self, step: int) -> float:
        """Of one checkpoint."""
        return self.accuracy[self.steps.index(step)]


def packed_process() -> tuple[Process, dict[str, Any]]:
    """The choice in the paper's run; the same as plain values, with how often it is as simple."""
    with packed_cohorts(COHORTS) as cohorts:
        runs = {str(key): run for each in cohorts.values() for key, run in each.usable.items()}
        shown = process(runs[PAPERS_RUN])
        return shown, {**plain(shown), "without compromise": without_compromise(runs.values())}


def process(run: Trajectory) -> Process:
    """How the default rule chooses from a run."""
    chosen = select(run, DEFAULT_RULE, guard=False)
    most_accurate = select(run, REFERENCE, guard=False)
    ranking = chosen.ranking
    inside = np.flatnonzero(ranking.eligible)
    scale = METRICS["accuracy"].scale
    return Process(
        run=str(run.key),
        rule=chosen.rule,
        reference=most_accurate.rule,
        delta_pp=float(chosen.tolerance_pp),
        steps=tuple(run.steps.tolist()),
        accuracy=tuple((scale * chosen.columns["accuracy"]).tolist()),
        feasible=tuple(run.steps[inside].tolist()),
        rescaled={
            name: tuple(values[inside].tolist()) for name, values in ranking.normalised.items()
        },
        distance=tuple(ranking.score[inside].tolist()),
        chosen=chosen.step,
        most_accurate=most_accurate.step,
    )


def without_compromise(runs: Iterable[Trajectory]) -> dict[str, int]:
    """In how many runs one feasible checkpoint is best in every objective."""
    found = [select(run, DEFAULT_RULE, guard=False) for run in runs]
    zero = [selection for selection in found if selection.score == 0]
    alone = [selection for selection in zero if len(selection.feasible_steps) == 1]
    return {"runs": len(found), "best in every objective": len(zero), "alone": len(alone)}


def draw(shown: Process) -> Figure:
    """Three panels: the feasible set, its rescaled objectives, the ranking by distance."""
    figure = new_figure(2.2, 2.9)
    accuracy, plane, order = figure.subplots(1, 3, width_ratios=(1.25, 1, 1))
    _accuracy(accuracy, shown)
    _plane(plane, shown)
    _order(order, shown)
    legend_below(figure, accuracy, 5)
    figure.suptitle(
        f"How {shown.rule} chooses from {shown.run}; source validation only", fontsize=8
    )
    return figure


def _accuracy(axes: Axes, shown: Process) -> None:
    plain_axes(
        axes,
        xlabel="Step",
        ylabel="Source accuracy (%)",
        title=f"1  Feasible set: {len(shown.feasible)} of {len(shown.steps)}\n"
        f"within {shown.delta_pp:g} points of the best",
    )
    best = max(shown.accuracy)
    axes.axhspan(best - shown.delta_pp, best, color=COLOURS[5], alpha=0.25, lw=0, label="tolerance")
    outside = [step for step in shown.steps if step not in shown.feasible]
    for steps, filled, label in (
        (outside, False, "not feasible"),
        (shown.feasible, True, "feasible"),
    ):
        axes.scatter(
            steps,
            [shown.accuracy_at(step) for step in steps],
            s=11,
            facecolors=COLOURS[5] if filled else "none",
            edgecolors=COLOURS[5] if filled else GREY,
            linewidths=0.8,
            label=label,
        )
    for step, rule in ((shown.most_accurate, shown.reference), (shown.chosen, shown.rule)):
        axes.scatter(
            [step],
            [shown.accuracy_at(step)],
            s=34,
            color=rule_colour(rule),
            marker="o" if rule == shown.reference else "s",
            label=f"{rule}: step {step}",
        )
    # The plateau is what matters; the rise from chance would flatten it.
    axes.set_ylim(best - 8 * shown.delta_pp, best + shown.delta_pp)


def _colours(shown: Process) -> list[str]:
    marked = {
        shown.chosen: rule_colour(shown.rule),
        shown.most_accurate: rule_colour(shown.reference),
    }
    return [marked.get(step, COLOURS[5]) for step in shown.feasible]


def _plane(axes: Axes, shown: Process) -> None:
    (first, x), (second, y) = shown.rescaled.items()
    plain_axes(
        axes,
        xlabel=f"Source {TITLES[first]}, rescaled",
        ylabel=f"Source {TITLES[second]}, rescaled",
        title="2  Objectives, rescaled to 0–1\nover the feasible set",
    )
    for edge in (0.25, 0.5, 0.75):  # the same distance everywhere on a line
        axes.plot([0, edge, edge], [edge, edge, 0], color=GREY, lw=0.6, ls=":", zorder=0)
    for at, colour, step in zip(
        zip(x, y, strict=True), _colours(shown), shown.feasible, strict=True
    ):
        mark, size = ("s", 6.0) if step == shown.chosen else ("o", 4.5)
        axes.plot(*at, mark, color=colour, ms=size, clip_on=False)
    axes.set_xlim(-0.05, 1)
    axes.set_ylim(-0.05, 1)


def _order(axes: Axes, shown: Process) -> None:
    plain_axes(
        axes,
        xlabel="Distance: the larger of the two",
        ylabel="Step",
        title=f"3  Choice: the smallest distance,\nstep {shown.chosen}",
    )
    order = sorted(range(len(shown.feasible)), key=lambda i: shown.distance[i])
    colours = _colours(shown)
    for place, i in enumerate(order):
        axes.plot([0, shown.distance[i]], [place, place], color=colours[i], lw=2.5)
        mark = "s" if shown.feasible[i] == shown.chosen else "o"
        axes.plot([shown.distance[i]], [place], mark, color=colours[i], ms=4.5, clip_on=False)
    axes.set_yticks(range(len(order)), [str(shown.feasible[i]) for i in order], fontsize=6)
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.set_xlim(-0.03, 1)


def main() -> None:
    shown, facts = packed_process()
    save(draw(shown), "process")
    FACTS.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
