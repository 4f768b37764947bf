"""How figures look and how they are saved: colours that colour-blind readers can tell apart."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkwise.errors import naming_extras
from checkwise.store import write_with

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe & Ito (2008).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
GREY = "#999999"
SEQUENTIAL = "cividis"
INCH_PER_COLUMN = 3.4

RULES = {
    "source-acc": 6,
    "ac-nc": 0,
    "ac-ne": 5,
    "ac-nec": 2,
    "ac-nll": 1,
    "ac-cwece": 3,
    "ac-ece": 4,
}


def rule_colour(rule: str, fallback: int = 7) -> str:
    if rule.startswith("pure-"):
        return GREY
    return COLOURS[RULES.get(rule, fallback) % len(COLOURS)]


@naming_extras()
def new_figure(columns: float = 1.0, height: float = 2.6) -> Figure:
    """An empty figure, ``columns`` text columns wide; no global state is touched."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(INCH_PER_COLUMN * columns, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def plain_axes(axes: Axes, *, xlabel: str = "", ylabel: str = "", title: str = "") -> Axes:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(which="both", labelsize=7)
    axes.set_xlabel(xlabel, fontsize=8)
    axes.set_ylabel(ylabel, fontsize=8)
    axes.set_title(title, fontsize=8, loc="left")
    return axes


def legend(axes: Axes, **options: Any) -> None:
    axes.legend(fontsize=7, frameon=False, **options)


def legend_below(figure: Figure, axes: Axes, columns: int) -> None:
    """One legend for all panels, below them, where it covers no data."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, fontsize=7, frameon=False
    )


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.pdf", folder / f"{name}.png"]
    write_with(
        paths[0], lambda file: figure.savefig(file, format="pdf", metadata={"CreationDate": None})
    )
    write_with(
        paths[1],
        lambda file: figure.savefig(file, format="png", dpi=200, metadata={"Software": None}),
    )
    return paths
