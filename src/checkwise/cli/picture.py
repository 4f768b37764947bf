"""A plot of one run in the terminal: the highest row is the best score, the dashed one δ's end."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from checkwise.selection import ACCURACY, Selection

ROWS: Final = 9
WIDEST: Final = 64
LEAST: Final = 3  # checkpoints below which a table says it all
EDGE: Final = 1e-9  # of rounding
DEPTH: Final = 4  # how many times the band's height is shown; what lies deeper is at the bottom


class Marks(NamedTuple):
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


DRAWN: Final = Marks(*"●▲○·↓┄┤└─")
PLAIN: Final = Marks(*"XAo.v-|+-")


def picture(selection: Selection, width: int, *, encoding: str = "utf-8") -> str:
    """Lines of at most ``width`` characters; empty where there is too little to draw."""
    judged = selection.judged_by
    columns = min(width, WIDEST) - 9
    if judged is None or len(selection.trajectory) < LEAST or columns < 20:
        return ""
    sign = 1 if judged.direction == "higher" else -1
    below = sign * (judged.best - np.asarray(selection.columns[judged.metric], dtype=float))
    there = np.isfinite(below)
    feasible = np.zeros(len(below), dtype=bool)  # without accuracy there is no band
    if judged.metric == selection.constraint:
        feasible = np.asarray(selection.feasible, dtype=bool)
    band = float(below[feasible].max(initial=0.0))
    if judged.metric == ACCURACY and selection.choice.kind.fixed:
        band = max(band, float(selection.tolerance_pp) / 100)
    worst = float(below[there].max(initial=0.0))
    depth = min(worst, DEPTH * band) if band > 0 else worst
    if depth <= 0:
        return ""

    marks = DRAWN if _can_draw(encoding) else PLAIN
    kinds = np.where(feasible, marks.feasible, marks.other)
    kinds[np.flatnonzero(below == 0)[:1]] = marks.best
    kinds[selection.index] = marks.chosen
    kinds[(kinds == marks.other) & (below > depth * (1 + EDGE))] = marks.deeper
    steps = selection.trajectory.steps
    across = (columns - 1) * (steps - steps[0]) / max(int(steps[-1] - steps[0]), 1)
    x = np.rint(across).astype(int)

    def row(amount: float) -> int:
        return min(ROWS - 1, round((ROWS - 1) * amount / depth))

    grid = [[" "] * columns for _ in range(ROWS)]
    grid[row(band)] = [marks.band] * columns
    for kind in (marks.deeper, marks.other, marks.feasible, marks.best, marks.chosen):
        for i in np.flatnonzero((kinds == kind) & there):  # the last one is on top
            grid[ROWS - 1 if kind == marks.deeper else row(below[i])][x[i]] = kind

    shown = {0: 0.0, ROWS - 1: depth, row(band): band}
    values = {at: judged.best - sign * amount for at, amount in shown.items()}
    in_percent = judged.metric == ACCURACY
    labels = {at: f"{100 * v:.2f}" if in_percent else f"{v:.4g}" for at, v in values.items()}
    names = {
        marks.chosen: "chosen",
        marks.best: f"best {judged.metric}",
        marks.band: "end of the tolerance",
        marks.feasible: "within it",
        marks.other: "outside",
        marks.deeper: "far below",
    }
    drawn = {cell for cells in grid for cell in cells}
    first = f"step {steps[0]}"
    lines = [
        judged.metric,
        *(
            f"{labels.get(at, ''):>7} {marks.side}{''.join(cells).rstrip()}"
            for at, cells in enumerate(grid)
        ),
        f"{'':>7} {marks.corner}{marks.floor * columns}",
        f"{'':>9}{first}{steps[-1]:>{columns - len(first)}}",
        f"{'':>9}{'  '.join(f'{mark} {name}' for mark, name in names.items() if mark in drawn)}",
    ]
    return "\n".join(lines)


def _can_draw(encoding: str) -> bool:
    try:
        "".join(DRAWN).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
