"""Every held-out domain as one dot per recipe, with the mean of each cohort and its interval."""

from __future__ import annotations

from checkwise.study.figures import COLOURS, GREY, MARKERS, new_figure, plain_axes
from studies.page import DOCS
from studies.paper.cohorts import there
from studies.paper.effects import FEW, effect

FILE = DOCS / "study" / "images" / "places.png"
RECIPES = {
    "ac-nc": ("ac-nc", "source-acc"),
    "ac-early": ("ac-early", "source-acc"),
    "pure-nll": ("pure-nll", "source-acc"),
    "source-acc, T ≥ 1": ("source-acc+ts-soften", "source-acc"),
    "mean of probabilities": ("mean-probs", "source-acc"),
    "mean of probabilities, both T ≥ 1": ("deploy-mean-probs", "source-acc+ts-soften"),
    "source-acc by unseen sites": ("source-acc@groups", "source-acc"),
}
LOW, HIGH = -2.6, 0.4  # changes beyond are drawn at the edge


def draw() -> None:
    """Write the figure."""
    cohorts = list(there())
    figure = new_figure(columns=2.1, height=0.62 * len(RECIPES) + 0.1 * len(cohorts) + 0.6)
    axes = plain_axes(
        figure.subplots(),
        xlabel="change of target NLL against source-acc: one dot per held-out domain, "
        f"its runs averaged\n(changes below {LOW} or above {HIGH} are drawn at the edge)",
    )
    step = 0.8 / len(cohorts)
    for row, (recipe, reference) in enumerate(RECIPES.values()):
        for number, (described, kept) in enumerate(cohorts):
            if recipe not in kept.values:
                continue
            found = effect(kept, recipe, reference)
            height = row - 0.4 + step * (number + 0.5)
            colour = COLOURS[number % 7]
            marker = MARKERS[number % 8]
            inside = found.values.clip(LOW, HIGH)
            axes.plot(inside, [height] * len(inside), marker, color=colour, ms=2.6, alpha=0.55)
            if len(inside) >= FEW:
                low, high = (max(LOW, min(HIGH, end)) for end in found.interval)
                axes.plot([low, high], [height] * 2, color=colour, lw=1.3)
            label = described.data if row == 0 else None
            axes.plot(found.mean, height, marker, color=colour, ms=5.5, mec="black", label=label)
    axes.axvline(0, color=GREY, lw=0.8, zorder=0)
    axes.set_yticks(range(len(RECIPES)), list(RECIPES))
    axes.set_ylim(len(RECIPES) - 0.4, -0.6)
    axes.set_xlim(LOW - 0.03, HIGH + 0.03)
    axes.legend(fontsize=6, loc="upper left", frameon=False)
    figure.savefig(FILE, dpi=150)


if __name__ == "__main__":
    draw()
