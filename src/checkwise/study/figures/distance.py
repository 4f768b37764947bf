"""Target accuracy against a diagnostic target distance, one point per rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from checkwise.records import RunKey
from checkwise.selection import DEFAULT_RULE
from checkwise.study import Pool, Row, label
from checkwise.study.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METRICS = ("nll", "ece", "cwece")
RULES: tuple[Row, ...] = (
    "source-acc",
    "ac-nc",
    "ac-ne",
    "ac-nec",
    "ac-nll",
    "ac-cwece",
    "ac-ece",
    "pure-nll",
    "pure-ece",
    "pure-cwece",
)
OFFSET = 1e-12
NEAR_PP = 3.0


@dataclass(frozen=True)
class DistancePoint:
    """One rule: mean target accuracy (percent) and mean target distance over ``n`` runs."""

    rule: str
    accuracy: float
    distance: float
    n: int
    role: str


def target_distance(pool: Pool, key: RunKey) -> NDArray[np.float64]:
    """L2 norm of target NLL, ECE and CwECE, each min–max over all checkpoints of the run."""
    target = pool.target(key)
    errors = np.stack([target[name] for name in METRICS])
    low = np.nanmin(errors, axis=1, keepdims=True)
    high = np.nanmax(errors, axis=1, keepdims=True)
    return np.asarray(np.sqrt((((errors - low) / (high - low + OFFSET)) ** 2).sum(axis=0)))


def distance_points(pool: Pool, rules: Sequence[Row] = ()) -> tuple[DistancePoint, ...]:
    """A point per rule, over the runs in which every rule's choice has finite target values."""
    about = (pool.reference, pool.rule)
    rules = rules or [*RULES, *(row for row in about if row.label not in RULES)]
    distances = {key: target_distance(pool, key) for key in pool.keys}
    rows = {
        key: {int(step): t for t, step in enumerate(pool.trajectory(key).steps.tolist())}
        for key in pool.keys
    }
    chosen = {}
    for rule in rules:
        outcomes_of = pool.outcomes(rule)
        chosen[label(rule)] = np.array(
            [
                np.mean([distances[key][rows[key][step]] for step in outcomes_of[key].steps])
                for key in pool.keys
            ]
        )
    there = np.isfinite(np.stack(list(chosen.values()))).all(axis=0)
    return tuple(
        DistancePoint(
            label(rule),
            100 * float(pool.columns(rule)["target_accuracy"][there].mean()),
            float(chosen[label(rule)][there].mean()),
            int(there.sum()),
            pool.everything().role,
        )
        for rule in rules
    )


def draw(points: Sequence[DistancePoint]) -> Figure:
    near = near_best(points)
    panels = [("all rules", points)]
    if 1 < len(near) < len(points):
        panels.append(("high accuracy", near))
    figure = style.new_figure(0.4 + 0.8 * len(panels), 2.8)
    for place, (title, shown) in enumerate(panels):
        axes = style.plain_axes(
            figure.add_subplot(1, len(panels), place + 1),
            xlabel="Mean target distance (smaller is more reliable)",
            ylabel="Mean target accuracy (%)",
            title=title,
        )
        scatter_points(axes, shown, [point.rule for point in points])
        if place == 0:
            style.legend_below(figure, axes, 5)
    first = points[0]
    figure.suptitle(
        f"{first.n} runs, {first.role}; a diagnostic, not a selection score", fontsize=8
    )
    return figure


def near_best(points: Sequence[DistancePoint]) -> list[DistancePoint]:
    best = max(point.accuracy for point in points)
    return [point for point in points if point.accuracy >= best - NEAR_PP]


def scatter_points(axes: Axes, points: Sequence[DistancePoint], rules: Sequence[str]) -> None:
    """A mark per rule, its own among all ``rules``; the default one lies above the others."""
    for point in points:
        axes.scatter(
            [point.distance],
            [point.accuracy],
            s=26,
            color=style.rule_colour(point.rule),
            marker=style.MARKERS[rules.index(point.rule) % len(style.MARKERS)],
            label=point.rule,
            zorder=3 if point.rule == DEFAULT_RULE else 2,
        )
