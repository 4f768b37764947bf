"""By algorithm: changes for two rules, and how far the order on the source holds on the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from checkwise.errors import InputError
from checkwise.selection import DEFAULT_RULE
from checkwise.study import Pool, contrasts, marked, method
from checkwise.study.figures import style
from checkwise.study.tables import METRICS, MeanInterval, all_checkpoints, mean_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


PAPER = (method("ac-nc", q=2).called("NC, D2"), method("ac-nec", q=np.inf).called("NEC, D∞"))
CHANGED_METRICS = ("target_accuracy", "target_nll")
CHANGE_NAMES = {"target_accuracy": "Δ target accuracy (points)", "target_nll": "Δ target NLL"}


@dataclass(frozen=True)
class AlgorithmChange:
    """One rule − the reference on one algorithm's runs; its 95% interval is over ``over``."""

    algorithm: str
    rule: str
    metric: str
    mean: float
    low: float
    high: float
    n: int
    data: str
    role: str
    reference: str
    over: str


def algorithm_changes(pool: Pool) -> tuple[AlgorithmChange, ...]:
    all_changes: list[AlgorithmChange] = []
    data, role = pool.datasets(), pool.everything().role
    rules = PAPER if pool.rule.label == DEFAULT_RULE else (pool.rule,)
    for group in pool.groups(["algorithm"]):
        for rule in rules:
            table = pool.differences(rule, pool.reference, CHANGED_METRICS, group.keep)
            all_changes += [
                AlgorithmChange(
                    algorithm=group.labels[0],
                    rule=rule.label,
                    metric=c.metric,
                    mean=c.mean,
                    low=c.low,
                    high=c.high,
                    n=c.n,
                    data=data,
                    role=role,
                    reference=pool.reference.label,
                    over=c.over,
                )
                for c in contrasts(table)
            ]
    return tuple(all_changes)


def draw_changes(all_changes: Sequence[AlgorithmChange]) -> Figure:
    """Open markers for the first rule, filled ones for the second."""
    figure = style.new_figure(2.0, 2.4)
    algorithms = list(dict.fromkeys(change.algorithm for change in all_changes))
    for number, metric in enumerate(CHANGED_METRICS):
        axes = style.plain_axes(figure.add_subplot(1, 2, number + 1), xlabel=CHANGE_NAMES[metric])
        of_metric = [change for change in all_changes if change.metric == metric]
        marker = "*" if metric == "target_accuracy" else "o"
        change_panel(axes, of_metric, algorithms, marker=marker, size=6)
        axes.invert_yaxis()
    style.legend_below(figure, axes, len({change.rule for change in all_changes}))
    sizes = sorted({change.n for change in all_changes})
    runs = "–".join(str(n) for n in dict.fromkeys((sizes[0], sizes[-1])))
    first = all_changes[0]
    figure.suptitle(
        f"Rule − {first.reference}, {first.data}, {runs} runs per algorithm, {first.role}, "
        f"95% over {'/'.join(sorted({change.over for change in all_changes}))}",
        fontsize=8,
    )
    return figure


def change_panel(
    axes: Axes,
    changes: Sequence[AlgorithmChange],
    algorithms: Sequence[str],
    *,
    marker: str,
    size: float,
) -> None:
    axes.axvline(0, color=style.GREY, lw=0.8)
    for i, rule in enumerate(dict.fromkeys(change.rule for change in changes)):
        of_rule = [change for change in changes if change.rule == rule]
        ends = np.array([[c.mean - c.low, c.high - c.mean] for c in of_rule]).T
        axes.errorbar(
            [c.mean for c in of_rule],
            [algorithms.index(c.algorithm) + 0.18 * (2 * i - 1) for c in of_rule],
            xerr=np.maximum(np.nan_to_num(ends), 0),
            fmt=marker,
            color=style.COLOURS[i],
            markerfacecolor=style.COLOURS[i] if i else "white",
            ms=size,
            lw=0.9,
            label=rule,
        )
    axes.set_yticks(range(len(algorithms)), algorithms, fontsize=7)


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


def draw_rank_agreements(taus: KendallFacts) -> Figure:
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
