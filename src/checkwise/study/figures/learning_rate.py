"""The effect of choosing by reliability against the learning rate that runs were trained with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from checkwise.errors import InputError
from checkwise.study import Pool
from checkwise.study.figures import style
from checkwise.study.tables import by_rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METRICS = {"target_nll": "Δ NLL", "target_accuracy": "Δ accuracy (points)"}


@dataclass(frozen=True)
class AtRate:
    """A contrast at one learning rate: metric → one change per run where it is finite."""

    dataset: str
    rate: float
    changes: dict[str, tuple[float, ...]]
    n: int
    role: str
    contrast: str


def facts(pool: Pool) -> tuple[AtRate, ...]:
    at_rates = []
    for group in by_rate(pool):
        values = pool.differences(pool.rule, pool.reference, tuple(METRICS), group.keep).values
        changes = {
            metric: tuple(column[np.isfinite(column)].tolist())
            for metric, column in zip(METRICS, values.T, strict=True)
        }
        dataset, rate = group.labels
        at_rates.append(
            AtRate(dataset, float(rate), changes, len(values), group.role, pool.contrast)
        )
    rates = {at.rate for at in at_rates}
    measured = {at.rate for at in at_rates if any(at.changes.values())}
    if len(measured) < 2:
        raise InputError(
            "Expected finite held-out results at two learning rates or more, but got them at "
            f"{len(measured)} of {len(rates)}: train a ladder, such as the study pacs-ladder.",
            code="empty",
        )
    return tuple(at_rates)


def missing(at_rates: Sequence[AtRate]) -> dict[str, int]:
    """Metric → runs without a finite change, of all learning rates; only where there are any."""
    lost = {metric: sum(at.n - len(at.changes[metric]) for at in at_rates) for metric in METRICS}
    return {metric: count for metric, count in lost.items() if count}


def draw(at_rates: Sequence[AtRate]) -> Figure:
    figure = style.new_figure(2.0, 2.6)
    datasets = list(dict.fromkeys(at.dataset for at in at_rates))
    for panel, (metric, name) in enumerate(METRICS.items()):
        axes = style.plain_axes(
            figure.add_subplot(1, 2, panel + 1), ylabel=name, xlabel="learning rate"
        )
        axes.set_xscale("log")
        axes.axhline(0, color=style.GREY, lw=0.8)
        for k, dataset in enumerate(datasets):
            rows = [at for at in at_rates if at.dataset == dataset]
            look: dict[str, Any] = {"color": style.COLOURS[k % 8], "marker": style.MARKERS[k % 8]}
            for at in rows:
                runs = at.changes[metric]
                axes.plot([at.rate] * len(runs), runs, ls="", ms=2.5, alpha=0.4, **look)
            there = [at for at in rows if at.changes[metric]]
            rates = [at.rate for at in there]
            means = [float(np.mean(at.changes[metric])) for at in there]
            axes.plot(rates, means, ms=4, lw=1.2, label=f"{dataset} ({rows[0].role})", **look)
    style.legend(axes)
    figure.suptitle(_title(at_rates), fontsize=8)
    return figure


def _title(at_rates: Sequence[AtRate]) -> str:
    sizes = sorted({at.n for at in at_rates})
    runs_each = "–".join(str(n) for n in dict.fromkeys((sizes[0], sizes[-1])))
    title = f"{at_rates[0].contrast}: runs (dots, {runs_each} at each learning rate) and means"
    lost = [f"{count} of {METRICS[metric]}" for metric, count in missing(at_rates).items()]
    return f"{title}\nnot finite, hence not shown: {', '.join(lost)}" if lost else title
