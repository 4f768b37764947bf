"""The tolerance as a dial: what a wider feasible set brings and costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from checkwise.errors import InputError
from checkwise.study import Group, Pool, contrasts, method
from checkwise.study.figures import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


def facts(pool: Pool, group: Group | None = None) -> tuple[AtTolerance, ...]:
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


def draw(by_tolerance: Sequence[AtTolerance]) -> Figure:
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
