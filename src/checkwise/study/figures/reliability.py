"""Reliability diagrams of two checkpoints side by side, with soft and with hard bins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from checkwise.metrics import BANDWIDTH, BINS
from checkwise.study import Predictions
from checkwise.study.figures import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Diagram:
    """Bins of the top label: weight (sums to 1), mean confidence and accuracy; nan where empty.

    ``error`` is the calibration error that these bins give: squared gaps with soft bins, absolute
    ones with hard bins. The two are never comparable.
    """

    kind: str
    weight: FloatArray
    confidence: FloatArray
    accuracy: FloatArray
    error: float


@dataclass(frozen=True)
class ReliabilityFacts:
    """Soft and hard diagrams by checkpoint."""

    soft: dict[str, Diagram]
    hard: dict[str, Diagram]


def facts(
    named: Mapping[str, Predictions], *, bins: int = BINS, bandwidth: float = BANDWIDTH
) -> ReliabilityFacts:
    """The diagrams of every checkpoint."""
    soft, hard = {}, {}
    for name, predictions in named.items():
        examples = predictions.examples
        u, right = examples.confidence, examples.correct.astype(np.float64)
        centres = np.linspace(0, 1, bins)
        w = np.exp(-((u[:, None] - centres) ** 2) / (2 * bandwidth**2))
        soft[name] = _diagram("soft", w / w.sum(axis=1, keepdims=True), u, right)
        of = np.clip(np.ceil(u * bins).astype(np.int64) - 1, 0, bins - 1)
        hard[name] = _diagram("hard", np.eye(bins)[of], u, right)
    return ReliabilityFacts(soft, hard)


def _diagram(kind: str, w: FloatArray, u: FloatArray, right: FloatArray) -> Diagram:
    mass = w.sum(axis=0)
    filled = np.where(mass > 1e-8, mass, np.nan)
    confidence, accuracy = (w * u[:, None]).sum(axis=0) / filled, right @ w / filled
    gap = np.nan_to_num(accuracy - confidence)
    share = mass / len(u)
    error = float((share * (gap**2 if kind == "soft" else np.abs(gap))).sum())
    return Diagram(kind, share, confidence, accuracy, error)


def draw(facts_of: ReliabilityFacts) -> Figure:
    """Rows: soft and hard bins; columns: checkpoints. Point area is the bin's weight."""
    names = list(facts_of.soft)
    figure = style.new_figure(0.9 * len(names), 4.6)
    for row, (kind, diagrams) in enumerate((("soft", facts_of.soft), ("hard", facts_of.hard))):
        for column, name in enumerate(names):
            diagram = diagrams[name]
            what = "squared gap" if kind == "soft" else "absolute gap"
            axes = style.plain_axes(
                figure.add_subplot(2, len(names), row * len(names) + column + 1),
                xlabel="Confidence",
                ylabel="Accuracy" if column == 0 else "",
                title=f"{name}, {kind} bins: {100 * diagram.error:.2f} (×100, {what})",
            )
            axes.title.set_fontsize(6)
            axes.plot([0, 1], [0, 1], ls="--", color=style.GREY, lw=0.9)
            axes.vlines(
                diagram.confidence,
                diagram.confidence,
                diagram.accuracy,
                color=style.COLOURS[1],
                lw=1.0,
            )
            axes.scatter(
                diagram.confidence,
                diagram.accuracy,
                s=4 + 160 * diagram.weight,
                color=style.rule_colour(name),
                zorder=2,
            )
            axes.set_xlim(0, 1)
            axes.set_ylim(0, 1)
    return figure
