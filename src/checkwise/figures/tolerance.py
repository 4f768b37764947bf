"""The tolerance as a dial: what a wider feasible set brings and costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from checkwise.figures import style
from checkwise.study.compare import contrasts
from checkwise.study.methods import method
from checkwise.study.pool import Group, Pool

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DELTAS = ("0", "0.1", "0.25", "0.5", "0.75", "1.0", "1.5", "2.0")
METRICS = ("target_accuracy", "target_nll", "target_ece", "target_cwece")
NAMES = {
    "target_accuracy": "Δ accuracy (points)",
    "target_nll": "Δ NLL",
    "target_ece": "Δ ECE (×100)",
    "target_cwece": "Δ CwECE (×100)",
}


@dataclass(frozen=True)
class AtTolerance:
    """ac-nc at one tolerance − source-acc: metric → (mean, low, high); mean |Θ| and gap."""

    delta_pp: float
    candidates: float
    gap_pp: float
    changes: dict[str, tuple[float, float, float]]
    n: int
    data: str
    role: str


def facts(pool: Pool, group: Group | None = None) -> tuple[AtTolerance, ...]:
    """Every tolerance of a grid, on the runs of one group (those of the first role by default)."""
    group = group or pool.by_role()[0]
    found = []
    for delta in DELTAS:
        rule = method("ac-nc", delta_pp=delta)
        rows = contrasts(pool.differences(rule, "source-acc", METRICS, group.keep))
        columns = pool.columns(rule)
        found.append(
            AtTolerance(
                float(delta),
                float(columns["eligible"][group.keep].mean()),
                float(columns["gap_pp"][group.keep].mean()),
                {row.metric: (row.mean, row.low, row.high) for row in rows},
                int(group.keep.sum()),
                pool.datasets(group.keep),
                group.role,
            )
        )
    return tuple(found)


def draw(found: Sequence[AtTolerance]) -> Figure:
    """One panel per metric with its interval, and one for the size of the feasible set."""
    figure = style.new(2.0, 3.6)
    deltas = [each.delta_pp for each in found]
    for panel, metric in enumerate(METRICS):
        axes = style.plain(
            figure.add_subplot(2, 3, panel + 1), ylabel=NAMES[metric], xlabel="δ (points)"
        )
        mean, low, high = zip(*(each.changes[metric] for each in found), strict=True)
        axes.axhline(0, color=style.GREY, lw=0.8)
        axes.fill_between(deltas, low, high, color=style.COLOURS[5], alpha=0.3, lw=0)
        axes.plot(deltas, mean, color=style.COLOURS[0], marker="o", ms=3, lw=1.2)
    axes = style.plain(
        figure.add_subplot(2, 3, 5), ylabel="Mean feasible checkpoints", xlabel="δ (points)"
    )
    candidates = [each.candidates for each in found]
    axes.plot(deltas, candidates, color=style.COLOURS[2], marker="s", ms=3, lw=1.2)
    axes = style.plain(
        figure.add_subplot(2, 3, 6), ylabel="Mean source gap (points)", xlabel="δ (points)"
    )
    gaps = [each.gap_pp for each in found]
    axes.plot(deltas, gaps, color=style.COLOURS[1], marker="^", ms=3, lw=1.2)
    first = found[0]
    figure.suptitle(f"ac-nc − source-acc, {first.data}, {first.n} runs, {first.role}", fontsize=8)
    return figure
