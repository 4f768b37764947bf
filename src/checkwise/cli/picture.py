"""A run as a small plot in the terminal: the scores, the tolerance, the choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from checkwise.selection import Selection
from checkwise.selection.constraint import ACCURACY

ROWS: Final = 9
WIDEST: Final = 64
LEAST: Final = 3  # checkpoints below which a table says it all
EDGE: Final = 1e-9  # of rounding
DEPTH: Final = 4  # how many times the band's height is shown; what lies deeper is at the bottom


@dataclass(frozen=True)
class Marks:
    """What stands for what."""

    chosen: str
    best: str
    feasible: str
    other: str
    deeper: str
    band: str
    side: str
    corner: str
    floor: str


DRAWN: Final = Marks("●", "▲", "○", "·", "↓", "┄", "┤", "└", "─")
PLAIN: Final = Marks("X", "A", "o", ".", "v", "-", "|", "+", "-")


def picture(selection: Selection, width: int, *, encoding: str = "utf-8") -> str:
    """Lines of at most ``width`` characters; empty where there is too little to draw.

    The highest row is the best score. The dashed row is the end of the tolerance.
    """
    judged = selection.judged_by
    columns = min(width, WIDEST) - 9
    if judged is None or len(selection.trajectory) < LEAST or columns < 20:
        return ""
    scores = np.asarray(selection.columns[judged.metric], dtype=float)
    feasible = np.asarray(selection.feasible, dtype=bool)
    rises = judged.direction == "higher"
    below = (judged.best - scores) * (1 if rises else -1)
    band = float(below[feasible].max(initial=0.0))
    if judged.metric == ACCURACY and selection.choice.kind.fixed:
        band = max(band, float(selection.tolerance_pp) / 100)
    depth = _depth(below, band)
    if depth <= 0:
        return ""
    marks = DRAWN if _can_draw(encoding) else PLAIN
    grid = [[" "] * columns for _ in range(ROWS)]
    line = _row(band, depth)
    grid[line] = [marks.band] * columns
    x = _across(selection.trajectory.steps, columns)
    kinds = _kinds(selection, below, feasible, marks)
    for kind in (marks.other, marks.feasible, marks.best, marks.chosen):  # the last one on top
        for i in np.flatnonzero(kinds == kind):
            if not np.isfinite(below[i]):
                continue
            deeper = below[i] > depth * (1 + EDGE) and kind == marks.other
            row = ROWS - 1 if deeper else _row(float(below[i]), depth)
            grid[row][x[i]] = marks.deeper if deeper else kind
    return "\n".join(_lines(selection, grid, line, depth, band, marks, rises=rises))


def _can_draw(encoding: str) -> bool:
    try:
        "".join(vars(DRAWN).values()).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _depth(below: NDArray[np.float64], band: float) -> float:
    """How far down the plot reaches: a few times the band, or to the worst checkpoint."""
    worst = float(below[np.isfinite(below)].max(initial=0.0))
    return min(worst, DEPTH * band) if band > 0 else worst


def _row(below: float, depth: float) -> int:
    return min(ROWS - 1, round((ROWS - 1) * below / depth))


def _across(steps: NDArray[np.int64], columns: int) -> NDArray[np.int64]:
    first, last = int(steps[0]), int(steps[-1])
    return np.rint((columns - 1) * (steps - first) / max(last - first, 1)).astype(np.int64)


def _kinds(
    selection: Selection, below: NDArray[np.float64], feasible: NDArray[np.bool_], marks: Marks
) -> NDArray[np.str_]:
    kinds = np.where(feasible, marks.feasible, marks.other)
    kinds[np.flatnonzero(below == 0)[:1]] = marks.best
    kinds[selection.index] = marks.chosen
    return kinds


def _lines(
    selection: Selection,
    grid: list[list[str]],
    line: int,
    depth: float,
    band: float,
    marks: Marks,
    *,
    rises: bool,
) -> list[str]:
    judged = selection.judged_by
    assert judged is not None
    labels = {0: judged.best, ROWS - 1: _at(judged.best, depth, rises=rises)}
    labels[line] = _at(judged.best, band, rises=rises)
    shown = [
        f"{_label(labels[row], judged.metric) if row in labels else '':>7} {marks.side}"
        + "".join(cells).rstrip()
        for row, cells in enumerate(grid)
    ]
    steps = selection.trajectory.steps
    floor = f"{'':>7} {marks.corner}{marks.floor * len(grid[0])}"
    first, last = f"step {steps[0]}", str(steps[-1])
    ends = f"{'':>9}{first}{last:>{len(grid[0]) - len(first)}}"
    names = {
        marks.chosen: "chosen",
        marks.best: f"best {judged.metric}",
        marks.band: "end of the tolerance",
        marks.feasible: "within it",
        marks.other: "outside",
        marks.deeper: "far below",
    }
    drawn = {cell for row in grid for cell in row}
    legend = [f"{mark} {name}" for mark, name in names.items() if mark in drawn]
    return [judged.metric, *shown, floor, ends, f"{'':>9}{'  '.join(legend)}"]


def _at(best: float, below: float, *, rises: bool) -> float:
    return best - below if rises else best + below


def _label(value: float, metric: str) -> str:
    return f"{100 * value:.2f}" if metric == ACCURACY else f"{value:.4g}"
