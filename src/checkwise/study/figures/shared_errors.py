"""Examples that two checkpoints both get wrong: what each believes about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.study import Predictions
from checkwise.study.figures import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SharedErrors:
    """Both checkpoints on the examples that both get wrong, first and second.

    Args:
        n: all examples.
        true_label: probability of the right class, each [shared].
        wrong: each one's own confidence in its own wrong class, each [shared].
        same: whether both chose the same wrong class.
    """

    n: int
    true_label: tuple[FloatArray, FloatArray]
    wrong: tuple[FloatArray, FloatArray]
    same: NDArray[np.bool_]

    @property
    def shared(self) -> int:
        """How many examples both get wrong."""
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
    """Compare two checkpoints on the same examples in the same order."""
    if not np.array_equal(first.labels, second.labels):
        raise InputError(
            "Expected two checkpoints on the same examples in the same order, but their labels "
            "differ.",
            code="differs",
        )
    p, q = first.probabilities, second.probabilities
    mine, theirs = p.argmax(axis=1), q.argmax(axis=1)
    labels = first.labels
    at = np.flatnonzero((mine != labels) & (theirs != labels))
    return SharedErrors(
        len(labels),
        (p[at, labels[at]], q[at, labels[at]]),
        (p[at, mine[at]], q[at, theirs[at]]),
        mine[at] == theirs[at],
    )


def draw(both_wrong: SharedErrors, names: Sequence[str]) -> Figure:
    """Two scatters with the line of equality; the same-wrong-label subset is darker."""
    figure = style.new_figure(2.0, 3.4)
    panels = (
        ("True-label probability", both_wrong.true_label, both_wrong.share_raised),
        ("Confidence in the wrong label", both_wrong.wrong, both_wrong.share_lowered),
    )
    verbs = ("higher", "lower")
    for panel, (title, (x, y), share) in enumerate(panels):
        axes = style.plain_axes(
            figure.add_subplot(1, 2, panel + 1),
            xlabel=f"{title}, {names[0]}",
            ylabel=f"{title}, {names[1]}",
            title=f"{verbs[panel]} in {share():.1%} of {both_wrong.shared}\n"
            f"same wrong label: {share(same_only=True):.1%} of {int(both_wrong.same.sum())}",
        )
        axes.plot([0, 1], [0, 1], ls="--", color=style.GREY, lw=0.9)
        axes.scatter(
            x[~both_wrong.same],
            y[~both_wrong.same],
            s=5,
            alpha=0.5,
            color=style.COLOURS[4],
            label="different wrong labels",
        )
        axes.scatter(
            x[both_wrong.same],
            y[both_wrong.same],
            s=5,
            alpha=0.5,
            color=style.COLOURS[0],
            label="same wrong label",
        )
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
    style.legend_below(figure, axes, 2)
    return figure
