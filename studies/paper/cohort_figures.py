"""Draw the overview figures on single cohorts.

    python -m studies.paper.cohort_figures

Run by ``make pages``. What the pictures show is beside them in cohorts.json, which a test compares
with the packed journals.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from checkwise.study.figures import (
    CHANGE_NAMES,
    CHANGED_METRICS,
    COLOURS,
    GREY,
    MARKERS,
    TAU_NAMES,
    change_panel,
    legend_below,
    near_best,
    new_figure,
    plain_axes,
    scatter_points,
)
from checkwise.words import listed
from studies.page import DOCS
from studies.paper.cohort_facts import Shown, plain, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IMAGES = DOCS / "study" / "images"
FACTS = IMAGES / "cohorts.json"
DPI = 150
COLUMNS = 2  # cohorts beside each other


def distances(cohorts: Sequence[Shown]) -> Figure:
    """A panel per cohort: the rules within a few points of the best accuracy."""
    rows = -(-len(cohorts) // COLUMNS)
    figure = new_figure(2.1, 1.75 * rows + 0.8)
    rules = [point.rule for point in cohorts[0].points]
    for place, cohort in enumerate(cohorts):
        axes = plain_axes(
            figure.add_subplot(rows, COLUMNS, place + 1),
            title=f"{cohort.data}: {cohort.runs} runs, {cohort.role}",
        )
        near = near_best(cohort.points)
        far = [point for point in cohort.points if point not in near]
        scatter_points(axes, near, rules)
        if place % COLUMNS == 0:
            axes.set_ylabel("Mean target accuracy (%)", fontsize=7)
        axes.set_xlabel(
            "; ".join(f"{p.rule} at {p.distance:.2f}, {p.accuracy:.1f} %" for p in far), fontsize=6
        )
        axes.ticklabel_format(useOffset=False)
        axes.margins(0.12)
    widest = max(range(len(cohorts)), key=lambda i: len(near_best(cohorts[i].points)))
    legend_below(figure, figure.axes[widest], 5)
    figure.suptitle(
        "To the right: mean target distance (smaller is more reliable). "
        "Below a panel: rules that are outside it.",
        fontsize=8,
    )
    return figure


def changes(cohorts: Sequence[Shown]) -> Figure:
    """Two panels per cohort with several algorithms: accuracy and NLL, each on its own scale."""
    several = [cohort for cohort in cohorts if cohort.changes]
    rows = -(-len(several) // COLUMNS)
    figure = new_figure(2.2, 1.9 * rows + 0.5)
    blocks = figure.subfigures(rows, COLUMNS, squeeze=False)
    for block, cohort in zip(blocks.flat, several, strict=False):
        over = cohort.changes[0].over
        block.suptitle(f"{cohort.data}: {cohort.role}\n95% over {over}", fontsize=7.5)
        both = block.subplots(1, len(CHANGED_METRICS), sharey=True)
        for axes, metric in zip(both, CHANGED_METRICS, strict=True):
            of_metric = [c for c in cohort.changes if c.metric == metric]
            change_panel(plain_axes(axes), of_metric, cohort.algorithms, marker="o", size=4.5)
            axes.set_xlabel(CHANGE_NAMES[metric], fontsize=7)
        both[0].set_ylim(len(cohort.algorithms) - 0.5, -0.5)
    legend_below(figure, both[0], 2)
    return figure


def taus(cohorts: Sequence[Shown]) -> Figure:
    """A panel per metric; the rows are cohorts and, within them, algorithms."""
    with_taus = [cohort for cohort in cohorts if cohort.taus]
    labels = [f"{c.data}, {algorithm}" for c in with_taus for algorithm in c.algorithms]
    figure = new_figure(2.2, 0.19 * len(labels) + 1.0)
    panels = figure.subplots(1, len(TAU_NAMES), sharey=True)
    for axes, metric in zip(panels, TAU_NAMES, strict=True):
        plain_axes(axes, title=TAU_NAMES[metric], xlabel="τ_b")
        axes.axvline(0, color=GREY, lw=0.8)
        row = 0
        for number, cohort in enumerate(with_taus):
            assert cohort.taus is not None
            cells = [cell.tau for cell in cohort.taus.cells if cell.metric == metric]
            axes.errorbar(
                [tau.mean for tau in cells],
                range(row, row + len(cells)),
                xerr=np.array([[tau.mean - tau.low, tau.high - tau.mean] for tau in cells]).T,
                fmt=MARKERS[number],
                color=COLOURS[number],
                ms=4,
                lw=0.9,
            )
            row += len(cells)
            if number + 1 < len(with_taus):
                axes.axhline(row - 0.5, color=GREY, lw=0.4, alpha=0.5)
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


if __name__ == "__main__":
    main()
