"""Figures of two checkpoints of one run on the same examples: errors, risk and reliability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.metrics import BANDWIDTH, BINS
from checkwise.study import FloatArray, Predictions
from checkwise.study.figures import style
from checkwise.study.inference import RiskCoverage, risk_coverage

if TYPE_CHECKING:
    from matplotlib.axes import Axes
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
        return self.errors / self.count if self.count else float("nan")

    @property
    def coverage(self) -> float:
        return self.count / self.n


def count_confident_errors(
    named: Mapping[str, Predictions], threshold: float = THRESHOLD
) -> tuple[Confident, ...]:
    """Errors among confident predictions, with the counts and the coverage they go with."""
    rules = []
    for name, predictions in named.items():
        examples = predictions.examples
        sure = examples.confidence >= threshold
        errors = int((sure & ~examples.correct).sum())
        rules.append(Confident(name, errors, int(sure.sum()), len(sure)))
    return tuple(rules)


def draw_confident_errors(rules: tuple[Confident, ...], threshold: float = THRESHOLD) -> Figure:
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
        text = f"{rule.errors}/{rule.count}\ncoverage {100 * rule.coverage:.0f}%"
        axes.annotate(text, (i, height), ha="center", va="bottom", fontsize=6)
    axes.set_xticks(range(len(rules)), [rule.name for rule in rules], fontsize=7)
    axes.margins(y=0.25)
    return figure


@dataclass(frozen=True, eq=False)
class SharedErrors:
    """Two checkpoints on the examples that both get wrong, first and second."""

    n: int  # all examples
    true_label: tuple[FloatArray, FloatArray]  # probability of the right class, each [shared]
    wrong: tuple[FloatArray, FloatArray]  # each one's confidence in its own wrong class
    same: NDArray[np.bool_]  # whether both chose the same wrong class

    @property
    def shared(self) -> int:
        return len(self.same)

    def share_raised(self, *, same_only: bool = False) -> float:
        """Share in which the second gives the true label more probability."""
        return self._share(self.true_label[1] > self.true_label[0], same_only)

    def share_lowered(self, *, same_only: bool = False) -> float:
        """Share in which the second is less confident in its error."""
        return self._share(self.wrong[1] < self.wrong[0], same_only)

    def _share(self, marked: NDArray[np.bool_], same_only: bool) -> float:
        among = marked[self.same] if same_only else marked
        return float(among.mean()) if len(among) else float("nan")


def count_shared_errors(first: Predictions, second: Predictions) -> SharedErrors:
    if not np.array_equal(first.labels, second.labels):
        raise InputError(
            "Expected two checkpoints on the same examples in the same order, but their labels "
            "differ.",
            code="differs",
        )
    p, q, labels = first.probabilities, second.probabilities, first.labels
    mine, theirs = p.argmax(axis=1), q.argmax(axis=1)
    at = np.flatnonzero((mine != labels) & (theirs != labels))
    return SharedErrors(
        len(labels),
        (p[at, labels[at]], q[at, labels[at]]),
        (p[at, mine[at]], q[at, theirs[at]]),
        mine[at] == theirs[at],
    )


def draw_shared_errors(both_wrong: SharedErrors, names: Sequence[str]) -> Figure:
    """Two scatters with the line of equality; the same-wrong-label subset is darker."""
    figure = style.new_figure(2.0, 3.4)
    same = both_wrong.same
    panels = (
        ("True-label probability", both_wrong.true_label, both_wrong.share_raised, "higher"),
        ("Confidence in the wrong label", both_wrong.wrong, both_wrong.share_lowered, "lower"),
    )
    for panel, (title, (x, y), share, verb) in enumerate(panels):
        axes = style.plain_axes(
            figure.add_subplot(1, 2, panel + 1),
            xlabel=f"{title}, {names[0]}",
            ylabel=f"{title}, {names[1]}",
            title=f"{verb} in {share():.1%} of {both_wrong.shared}\n"
            f"same wrong label: {share(same_only=True):.1%} of {int(same.sum())}",
        )
        _draw_equality(axes)
        for marked, colour, label in (
            (~same, style.COLOURS[4], "different wrong labels"),
            (same, style.COLOURS[0], "same wrong label"),
        ):
            axes.scatter(x[marked], y[marked], s=5, alpha=0.5, color=colour, label=label)
    style.legend_below(figure, axes, 2)
    return figure


def _draw_equality(axes: Axes) -> None:
    axes.plot([0, 1], [0, 1], ls="--", color=style.GREY, lw=0.9)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)


@dataclass(frozen=True, eq=False)
class Diagram:
    """Bins of the top label, and the calibration error that they give.

    It is of squared gaps with soft bins, of absolute ones with hard bins: never comparable.
    """

    kind: str
    weight: FloatArray  # sums to 1
    confidence: FloatArray  # means; nan where empty
    accuracy: FloatArray
    error: float


@dataclass(frozen=True)
class ReliabilityFacts:
    """Soft and hard diagrams by checkpoint."""

    soft: dict[str, Diagram]
    hard: dict[str, Diagram]


def reliability_diagrams(
    named: Mapping[str, Predictions], *, bins: int = BINS, bandwidth: float = BANDWIDTH
) -> ReliabilityFacts:
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


def draw_reliability(found: ReliabilityFacts) -> Figure:
    names = list(found.soft)
    figure = style.new_figure(0.9 * len(names), 4.6)
    for row, (diagrams, what) in enumerate(
        ((found.soft, "squared gap"), (found.hard, "absolute gap"))
    ):
        for column, name in enumerate(names):
            d = diagrams[name]
            axes = style.plain_axes(
                figure.add_subplot(2, len(names), row * len(names) + column + 1),
                xlabel="Confidence",
                ylabel="Accuracy" if column == 0 else "",
                title=f"{name}, {d.kind} bins: {100 * d.error:.2f} (×100, {what})",
            )
            axes.title.set_fontsize(6)
            _draw_equality(axes)
            axes.vlines(d.confidence, d.confidence, d.accuracy, color=style.COLOURS[1], lw=1.0)
            area, colour = 4 + 160 * d.weight, style.rule_colour(name)
            axes.scatter(d.confidence, d.accuracy, s=area, color=colour, zorder=2)
    return figure


def risk_curves(named: Mapping[str, Predictions]) -> dict[str, RiskCoverage]:
    examples = {name: predictions.examples for name, predictions in named.items()}
    return {name: risk_coverage(rows.confidence, rows.correct) for name, rows in examples.items()}


def draw_risk_coverage(curves: Mapping[str, RiskCoverage]) -> Figure:
    figure = style.new_figure(1.2, 2.6)
    axes = style.plain_axes(
        figure.add_subplot(), xlabel="Coverage (%)", ylabel="Errors among covered (%)"
    )
    for i, (name, curve) in enumerate(curves.items()):
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
