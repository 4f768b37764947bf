"""Risk–coverage curves of several checkpoints on the same examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from checkwise.study import Predictions
from checkwise.study.figures import style
from checkwise.study.inference import RiskCoverage, risk_coverage

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def facts(named: Mapping[str, Predictions]) -> dict[str, RiskCoverage]:
    """The curve of every checkpoint."""
    examples = {name: predictions.examples for name, predictions in named.items()}
    return {name: risk_coverage(rows.confidence, rows.correct) for name, rows in examples.items()}


def draw(examples: Mapping[str, RiskCoverage]) -> Figure:
    """Error rate over coverage; the legend gives the areas."""
    figure = style.new_figure(1.2, 2.6)
    axes = style.plain_axes(
        figure.add_subplot(), xlabel="Coverage (%)", ylabel="Errors among covered (%)"
    )
    for i, (name, curve) in enumerate(examples.items()):
        axes.plot(
            100 * curve.coverage,
            100 * curve.risk,
            color=style.rule_colour(name),
            ls=("-", "--", ":", "-.")[i % 4],
            lw=1.4,
            label=f"{name} (area {100 * curve.area:.2f})",
        )
    axes.set_xlim(0, 100)
    axes.set_ylim(bottom=0)
    style.legend(axes, loc="upper left")
    return figure
