"""Errors among confident predictions, with the counts and the coverage they go with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from checkwise.study import Predictions
from checkwise.study.figures import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THRESHOLD = 0.90


@dataclass(frozen=True)
class Confident:
    """Predictions with at least the threshold's confidence."""

    name: str
    errors: int
    count: int
    n: int

    @property
    def rate(self) -> float:
        """Error rate among them; nan if there are none."""
        return self.errors / self.count if self.count else float("nan")

    @property
    def coverage(self) -> float:
        """Share of all predictions."""
        return self.count / self.n


def count_confident_errors(
    named: Mapping[str, Predictions], threshold: float = THRESHOLD
) -> tuple[Confident, ...]:
    """Count for every checkpoint."""
    rules = []
    for name, predictions in named.items():
        examples = predictions.examples
        sure = examples.confidence >= threshold
        errors = int((sure & ~examples.correct).sum())
        rules.append(Confident(name, errors, int(sure.sum()), len(sure)))
    return tuple(rules)


def draw(rules: tuple[Confident, ...], threshold: float = THRESHOLD) -> Figure:
    """Bars of the error rate; labels say errors / confident predictions and coverage."""
    figure = style.new_figure(1.0, 2.4)
    axes = style.plain_axes(
        figure.add_subplot(),
        ylabel=f"Errors at confidence ≥ {threshold:.0%}".replace("%", " %"),
        title="not at equal coverage",
    )
    for i, rule in enumerate(rules):
        height = 100 * rule.rate if rule.count else 0.0
        axes.bar([i], [height], width=0.6, color=style.rule_colour(rule.name))
        axes.annotate(
            f"{rule.errors}/{rule.count}\ncoverage {100 * rule.coverage:.0f}%",
            (i, height),
            ha="center",
            va="bottom",
            fontsize=6,
        )
    axes.set_xticks(range(len(rules)), [rule.name for rule in rules], fontsize=7)
    axes.margins(y=0.25)
    return figure
