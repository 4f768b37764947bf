"""Source–target rank agreement over all checkpoints, by data set and algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from checkwise.errors import InputError
from checkwise.study import Pool, marked
from checkwise.study.figures import style
from checkwise.study.tables import METRICS, MeanInterval, all_checkpoints, mean_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TAU_NAMES = {"accuracy": "Accuracy", "nll": "NLL", "ece": "ECE", "cwece": "CwECE"}


@dataclass(frozen=True)
class Agreement:
    """Mean τ_b of one metric over the runs of one data set and algorithm, with its interval."""

    dataset: str
    algorithm: str
    metric: str
    tau: MeanInterval


@dataclass(frozen=True)
class KendallFacts:
    """All cells, the mean over each panel (metric → mean over every run), the data's role."""

    cells: tuple[Agreement, ...]
    panel_means: dict[str, float]
    role: str


def rank_agreements(pool: Pool) -> KendallFacts:
    tau = all_checkpoints(pool)
    cells = []
    for group in pool.groups(["dataset", "algorithm"]):
        dataset, algorithm = group.labels
        for metric in METRICS:
            found = mean_interval(tau[metric][group.keep], marked(pool.keys, group.keep))
            if found.n:
                cells.append(Agreement(dataset, algorithm, metric, found))
    means = {m: float(np.nanmean(v)) for m, v in tau.items() if np.isfinite(v).any()}
    return KendallFacts(tuple(cells), means, pool.everything().role)


def draw(taus: KendallFacts) -> Figure:
    if not taus.panel_means:
        raise InputError(
            "Expected runs with finite target values at two steps or more, but there are none: "
            "Kendall's τ needs an order to compare.",
            code="empty",
        )
    figure = style.new_figure(2.0, 2.6)
    algorithms = list(dict.fromkeys(cell.algorithm for cell in taus.cells))
    datasets = list(dict.fromkeys(cell.dataset for cell in taus.cells))
    for panel, metric in enumerate(taus.panel_means):
        axes = style.plain_axes(
            figure.add_subplot(1, len(taus.panel_means), panel + 1),
            title=TAU_NAMES[metric],
            xlabel="τ_b",
        )
        axes.axvspan(0, taus.panel_means[metric], color=style.GREY, alpha=0.18, lw=0)
        axes.axvline(0, color=style.GREY, lw=0.8)
        for d, dataset in enumerate(datasets):
            of_dataset = [c for c in taus.cells if c.metric == metric and c.dataset == dataset]
            taus_of = [c.tau for c in of_dataset]
            ends = np.array([[t.mean - t.low, t.high - t.mean] for t in taus_of]).T
            offset = 0.22 * (d - (len(datasets) - 1) / 2)
            axes.errorbar(
                [t.mean for t in taus_of],
                [algorithms.index(c.algorithm) + offset for c in of_dataset],
                xerr=np.maximum(np.nan_to_num(ends), 0),
                fmt=style.MARKERS[d],
                ms=3.5,
                lw=0.8,
                color=style.COLOURS[d],
                label=dataset,
            )
        axes.set_yticks(
            range(len(algorithms)), algorithms if panel == 0 else [""] * len(algorithms)
        )
        axes.set_ylim(len(algorithms) - 0.4, -0.6)
    style.legend_below(figure, axes, len(datasets))
    over = "/".join(sorted({cell.tau.over or "runs" for cell in taus.cells}))
    figure.suptitle(
        f"Source and target order over all checkpoints, {taus.role}, 95% over {over}\n"
        "shaded: from 0 to the mean over all runs of the panel",
        fontsize=8,
    )
    return figure
