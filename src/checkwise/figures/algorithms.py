"""Per algorithm: changes of target accuracy and NLL for two rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from checkwise.figures import style
from checkwise.study.compare import contrasts
from checkwise.study.methods import method
from checkwise.study.pool import Pool

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RULES = (
    method("ac-nc", q=2).called("NC, D2"),
    method("ac-nec", q=np.inf).called("NEC, D∞"),
)
METRICS = ("target_accuracy", "target_nll")


@dataclass(frozen=True)
class Change:
    """One rule − source-acc on one algorithm's runs, with its 95% interval over runs.

    ``data`` and ``role`` are those of the figure.
    """

    algorithm: str
    rule: str
    metric: str
    mean: float
    low: float
    high: float
    n: int
    data: str
    role: str


def facts(pool: Pool) -> tuple[Change, ...]:
    """Every algorithm × rule × metric, pooled over data sets."""
    found: list[Change] = []
    data, role = pool.datasets(), pool.everything().role
    for group in pool.groups(["algorithm"]):
        for rule in RULES:
            table = pool.differences(rule, "source-acc", METRICS, group.keep)
            found += [
                Change(
                    group.labels[0], rule.label, c.metric, c.mean, c.low, c.high, c.n, data, role
                )
                for c in contrasts(table)
            ]
    return tuple(found)


def draw(found: Sequence[Change]) -> Figure:
    """Open markers for the first rule, filled ones for the second."""
    figure = style.new(2.0, 2.4)
    algorithms = list(dict.fromkeys(change.algorithm for change in found))
    names = {"target_accuracy": "Δ target accuracy (points)", "target_nll": "Δ target NLL"}
    for panel, metric in enumerate(METRICS):
        axes = style.plain(figure.add_subplot(1, 2, panel + 1), xlabel=names[metric])
        axes.axvline(0, color=style.GREY, lw=0.8)
        for i, rule in enumerate(RULES):
            mine = [c for c in found if c.metric == metric and c.rule == rule.label]
            places = [algorithms.index(c.algorithm) + 0.18 * (2 * i - 1) for c in mine]
            means = np.array([c.mean for c in mine])
            ends = np.array([[c.mean - c.low, c.high - c.mean] for c in mine]).T
            axes.errorbar(
                means,
                places,
                xerr=np.nan_to_num(ends),
                fmt="*" if metric == "target_accuracy" else "o",
                color=style.COLOURS[i],
                markerfacecolor=style.COLOURS[i] if i else "white",
                ms=6,
                lw=0.9,
                label=rule.label,
            )
        axes.set_yticks(range(len(algorithms)), algorithms, fontsize=7)
        axes.invert_yaxis()
    style.legend_below(figure, axes, len(RULES))
    sizes = sorted({change.n for change in found})
    runs = "–".join(str(n) for n in dict.fromkeys((sizes[0], sizes[-1])))
    first = found[0]
    figure.suptitle(
        f"Rule − source-acc, {first.data}, {runs} runs per algorithm, {first.role}", fontsize=8
    )
    return figure
