"""Draw the overview figures on single cohorts and fill study/figures-cohorts.md.

    python docs/build/cohort_figures.py

Run by ``make pages``. What the pictures show is beside them in cohorts.json, which a test compares
with the packed journals.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from cohort_facts import Change, Shown, plain, shown
from figures_page import PAGE, parts
from PIL import Image

from checkwise.figures import style
from checkwise.figures.algorithms import METRICS as CHANGED
from checkwise.figures.distance import NEAR_PP, Point
from checkwise.figures.kendall import NAMES as TAU_NAMES
from checkwise.selection import DEFAULT_RULE
from checkwise.text import listed
from page import fill

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

IMAGES = Path(__file__).parents[1] / "study" / "images"
FACTS = IMAGES / "cohorts.json"
DPI = 150
COLUMNS = 2  # cohorts beside each other
CHANGE_NAMES = {"target_accuracy": "Δ target accuracy (points)", "target_nll": "Δ target NLL"}


def distances(cohorts: Sequence[Shown]) -> Figure:
    """A panel per cohort: the rules within a few points of the best accuracy."""
    rows = -(-len(cohorts) // COLUMNS)
    figure = style.new(2.1, 1.75 * rows + 0.8)
    rules = [point.rule for point in cohorts[0].points]
    for place, cohort in enumerate(cohorts):
        axes = style.plain(
            figure.add_subplot(rows, COLUMNS, place + 1),
            title=f"{cohort.data}: {cohort.runs} runs, {cohort.role}",
        )
        near, far = near_and_far(cohort.points)
        for point in near:
            axes.scatter(
                [point.distance],
                [point.accuracy],
                s=26,
                color=style.colour(point.rule),
                marker=style.MARKERS[rules.index(point.rule) % len(style.MARKERS)],
                label=point.rule,
                zorder=3 if point.rule == DEFAULT_RULE else 2,
            )
        if place % COLUMNS == 0:
            axes.set_ylabel("Mean target accuracy (%)", fontsize=7)
        axes.set_xlabel(
            "; ".join(f"{p.rule} at {p.distance:.2f}, {p.accuracy:.1f} %" for p in far), fontsize=6
        )
        axes.ticklabel_format(useOffset=False)
        axes.margins(0.12)
    widest = max(range(len(cohorts)), key=lambda i: len(near_and_far(cohorts[i].points)[0]))
    style.legend_below(figure, figure.axes[widest], 5)
    figure.suptitle(
        "To the right: mean target distance (smaller is more reliable). "
        "Below a panel: rules that are outside it.",
        fontsize=8,
    )
    return figure


def near_and_far(points: Sequence[Point]) -> tuple[list[Point], list[Point]]:
    """Rules within a few points of the best accuracy, and the others."""
    floor = max(point.accuracy for point in points) - NEAR_PP
    return [p for p in points if p.accuracy >= floor], [p for p in points if p.accuracy < floor]


def changes(cohorts: Sequence[Shown]) -> Figure:
    """Two panels per cohort with several algorithms: accuracy and NLL, each on its own scale."""
    several = [cohort for cohort in cohorts if cohort.changes]
    rows = -(-len(several) // COLUMNS)
    figure = style.new(2.2, 1.9 * rows + 0.5)
    blocks = figure.subfigures(rows, COLUMNS, squeeze=False)
    for block, cohort in zip(blocks.flat, several, strict=False):
        over = cohort.changes[0].over
        block.suptitle(f"{cohort.data}: {cohort.role}\n95% over {over}", fontsize=7.5)
        both = block.subplots(1, len(CHANGED), sharey=True)
        for axes, metric in zip(both, CHANGED, strict=True):
            _changes_of(axes, [c for c in cohort.changes if c.metric == metric], cohort.algorithms)
            axes.set_xlabel(CHANGE_NAMES[metric], fontsize=7)
        both[0].set_ylim(len(cohort.algorithms) - 0.5, -0.5)
    style.legend_below(figure, both[0], 2)
    return figure


def _changes_of(axes: Axes, found: Sequence[Change], algorithms: Sequence[str]) -> None:
    style.plain(axes).axvline(0, color=style.GREY, lw=0.8)
    for i, rule in enumerate(dict.fromkeys(change.rule for change in found)):
        of_rule = [change for change in found if change.rule == rule]
        axes.errorbar(
            [c.mean for c in of_rule],
            [algorithms.index(c.algorithm) + 0.18 * (2 * i - 1) for c in of_rule],
            xerr=np.array([[c.mean - c.low, c.high - c.mean] for c in of_rule]).T,
            fmt="o",
            color=style.COLOURS[i],
            markerfacecolor=style.COLOURS[i] if i else "white",
            ms=4.5,
            lw=0.9,
            label=rule,
        )
    axes.set_yticks(range(len(algorithms)), algorithms, fontsize=7)


def taus(cohorts: Sequence[Shown]) -> Figure:
    """A panel per metric; the rows are cohorts and, within them, algorithms."""
    with_taus = [cohort for cohort in cohorts if cohort.taus]
    labels = [f"{c.data}, {algorithm}" for c in with_taus for algorithm in c.algorithms]
    figure = style.new(2.2, 0.19 * len(labels) + 1.0)
    panels = figure.subplots(1, len(TAU_NAMES), sharey=True)
    for axes, metric in zip(panels, TAU_NAMES, strict=True):
        style.plain(axes, title=TAU_NAMES[metric], xlabel="τ_b")
        axes.axvline(0, color=style.GREY, lw=0.8)
        row = 0
        for number, cohort in enumerate(with_taus):
            assert cohort.taus is not None
            cells = [cell.tau for cell in cohort.taus.cells if cell.metric == metric]
            axes.errorbar(
                [tau.mean for tau in cells],
                range(row, row + len(cells)),
                xerr=np.array([[tau.mean - tau.low, tau.high - tau.mean] for tau in cells]).T,
                fmt=style.MARKERS[number],
                color=style.COLOURS[number],
                ms=4,
                lw=0.9,
            )
            row += len(cells)
            if number + 1 < len(with_taus):
                axes.axhline(row - 0.5, color=style.GREY, lw=0.4, alpha=0.5)
        axes.set_xlim(-1.05, 1.05)  # τ cannot be beyond ±1; intervals over three domains are
        axes.set_yticks(range(len(labels)), labels, fontsize=7)
    panels[0].set_ylim(len(labels) - 0.5, -0.5)
    evaluation = [cohort.data for cohort in with_taus if cohort.role == "evaluation"]
    figure.suptitle(
        "Source and target order over all checkpoints, 95% over held-out domains\n"
        + f"evaluation data: {listed(evaluation)}; the others: development data",
        fontsize=8,
    )
    return figure


def save(figure: Figure, name: str) -> None:
    """Keep a picture, small."""
    file = IMAGES / f"{name}.png"
    figure.savefig(file, dpi=DPI, metadata={"Software": None})
    with Image.open(file) as image:
        image.convert("RGB").quantize(128).save(file, optimize=True)


def main() -> None:
    cohorts = shown()
    for name, draw in {"distance": distances, "algorithms": changes, "kendall": taus}.items():
        save(draw(cohorts), f"cohorts-{name}")
    FACTS.write_text(json.dumps(plain(cohorts), indent=1) + "\n")
    for name, content in parts(cohorts).items():
        fill(PAGE, name, content)


if __name__ == "__main__":
    main()
