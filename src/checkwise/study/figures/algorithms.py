"""Per algorithm: changes of target accuracy and NLL for two rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from checkwise.selection import DEFAULT_RULE
from checkwise.study import Pool, contrasts, method
from checkwise.study.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPER = (
    method("ac-nc", q=2).called("NC, D2"),
    method("ac-nec", q=np.inf).called("NEC, D∞"),
)
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


def draw(all_changes: Sequence[AlgorithmChange]) -> Figure:
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
