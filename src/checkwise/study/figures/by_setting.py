"""The effect of choosing by reliability against the learning rate, and against the tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from checkwise.errors import InputError
from checkwise.study import Group, Pool, contrasts, method
from checkwise.study.figures import style
from checkwise.study.tables import by_rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure


RATE_METRICS = {"target_nll": "Δ NLL", "target_accuracy": "Δ accuracy (points)"}


@dataclass(frozen=True)
class AtRate:
    """A contrast at one learning rate: metric → one change per run where it is finite."""

    dataset: str
    rate: float
    changes: dict[str, tuple[float, ...]]
    n: int
    role: str
    contrast: str


def learning_rate_facts(pool: Pool) -> tuple[AtRate, ...]:
    at_rates = []
    for group in by_rate(pool):
        values = pool.differences(pool.rule, pool.reference, tuple(RATE_METRICS), group.keep).values
        changes = {
            metric: tuple(column[np.isfinite(column)].tolist())
            for metric, column in zip(RATE_METRICS, values.T, strict=True)
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


def missing_at_rates(at_rates: Sequence[AtRate]) -> dict[str, int]:
    """Metric → runs without a finite change, of all learning rates; only where there are any."""
    lost = {
        metric: sum(at.n - len(at.changes[metric]) for at in at_rates) for metric in RATE_METRICS
    }
    return {metric: count for metric, count in lost.items() if count}


def draw_learning_rate(at_rates: Sequence[AtRate]) -> Figure:
    figure = style.new_figure(2.0, 2.6)
    datasets = list(dict.fromkeys(at.dataset for at in at_rates))
    for panel, (metric, name) in enumerate(RATE_METRICS.items()):
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
    figure.suptitle(_title_of_rates(at_rates), fontsize=8)
    return figure


def _title_of_rates(at_rates: Sequence[AtRate]) -> str:
    sizes = sorted({at.n for at in at_rates})
    runs_each = "–".join(str(n) for n in dict.fromkeys((sizes[0], sizes[-1])))
    title = f"{at_rates[0].contrast}: runs (dots, {runs_each} at each learning rate) and means"
    lost = [
        f"{count} of {RATE_METRICS[metric]}" for metric, count in missing_at_rates(at_rates).items()
    ]
    return f"{title}\nnot finite, hence not shown: {', '.join(lost)}" if lost else title


DELTAS = ("0", "0.1", "0.25", "0.5", "0.75", "1.0", "1.5", "2.0")
NAMES = {
    "target_accuracy": "Δ accuracy (points)",
    "target_nll": "Δ NLL",
    "target_ece": "Δ ECE (×100)",
    "target_cwece": "Δ CwECE (×100)",
}
METRICS = tuple(NAMES)


@dataclass(frozen=True)
class AtTolerance:
    """The rule at one tolerance − the reference: metric → (mean, low, high); mean |Θ| and gap."""

    delta_pp: float
    candidates: float
    gap_pp: float
    changes: dict[str, tuple[float, float, float]]
    n: int
    data: str
    role: str
    contrast: str
    over: str


def tolerance_facts(pool: Pool, group: Group | None = None) -> tuple[AtTolerance, ...]:
    """Every tolerance of a grid, on the runs of one group (those of the first role by default)."""
    if "delta_pp" not in pool.rule.takes:
        raise InputError(
            f"Expected a rule with a tolerance, but {pool.rule.label} has none: choose one that "
            "takes delta_pp.",
            code="unsupported",
        )
    group = group or pool.by_role()[0]
    by_tolerance = []
    for delta in DELTAS:
        rule = method(pool.rule, delta_pp=delta)
        table = pool.differences(rule, pool.reference, METRICS, group.keep)
        rows = contrasts(table)
        columns = pool.columns(rule)
        by_tolerance.append(
            AtTolerance(
                float(delta),
                float(columns["eligible"][group.keep].mean()),
                float(columns["gap_pp"][group.keep].mean()),
                {row.metric: (row.mean, row.low, row.high) for row in rows},
                int(group.keep.sum()),
                pool.datasets(group.keep),
                group.role,
                pool.contrast,
                "/".join(sorted({row.over for row in rows})),
            )
        )
    return tuple(by_tolerance)


def draw_tolerance(by_tolerance: Sequence[AtTolerance]) -> Figure:
    figure = style.new_figure(2.0, 3.6)
    deltas = [at.delta_pp for at in by_tolerance]
    curves: dict[str, tuple[Sequence[float], str, str]] = {
        NAMES[metric]: ([at.changes[metric][0] for at in by_tolerance], style.COLOURS[0], "o")
        for metric in METRICS
    }
    candidates = [at.candidates for at in by_tolerance]
    curves["Mean feasible checkpoints"] = (candidates, style.COLOURS[2], "s")
    gaps = [at.gap_pp for at in by_tolerance]
    curves["Mean source gap (points)"] = (gaps, style.COLOURS[1], "^")
    for panel, (name, (values, colour, marker)) in enumerate(curves.items()):
        axes = style.plain_axes(
            figure.add_subplot(2, 3, panel + 1), ylabel=name, xlabel="δ (points)"
        )
        if panel < len(METRICS):
            _, low, high = zip(*(at.changes[METRICS[panel]] for at in by_tolerance), strict=True)
            axes.axhline(0, color=style.GREY, lw=0.8)
            axes.fill_between(deltas, low, high, color=style.COLOURS[5], alpha=0.3, lw=0)
        axes.plot(deltas, values, color=colour, marker=marker, ms=3, lw=1.2)
    first = by_tolerance[0]
    about = f"{first.contrast}, {first.data}, {first.n} runs, {first.role}"
    figure.suptitle(f"{about}, 95% over {first.over}", fontsize=8)
    return figure
