"""Paired effects drawn: the mean with its interval, over every run's own difference."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

import numpy as np

from checkwise.page import svg
from checkwise.page.facts import Spread
from checkwise.page.markup import Child, Markup, join
from checkwise.page.svg import Scale
from checkwise.page.words import interval, number, title, unit
from checkwise.study.paired import higher_is_better

ROW, TOP, FOOT, SIDE = 64, 34, 30, 10
# Positions that spread evenly whatever their number (the fraction of the golden ratio).
_GOLDEN = 0.6180339887


def forest_panel(spreads: Sequence[Spread], width: int = 400) -> Markup:
    """One metric; a row for each rule. Zero means no difference to the reference."""
    metric = spreads[0].contrast.metric
    low, high = _range(spreads)
    x = Scale(low, high, SIDE, width - SIDE)
    bottom = TOP + ROW * len(spreads)
    scale_unit = unit(metric, spreads[0].contrast.scale)
    heading = title(metric) + (f" ({scale_unit})" if scale_unit else "")
    better = "better →" if higher_is_better(metric) else "← better"
    end = width - SIDE if higher_is_better(metric) else SIDE
    parts: list[Child] = [
        svg.text(SIDE, 14, f"Δ {heading}", "panel"),
        svg.line(x(0), TOP - 8, x(0), bottom, "zero"),
        svg.line(SIDE, bottom, width - SIDE, bottom, "base"),
        svg.text(end, TOP - 6, better, "small", "end" if end > SIDE else "start"),
    ]
    parts += [
        svg.text(x(value), bottom + 16, svg.tick_text(value), "tick", "middle")
        for value in svg.ticks(low, high, 4)
    ]
    for row, spread in enumerate(spreads):
        parts.append(_row(spread, x, TOP + ROW * row, row, width))
    said = "; ".join(
        f"{s.contrast.rule} {number(s.contrast.mean, metric, signed=True)} {interval(s.contrast)}"
        for s in spreads
    )
    label = f"Paired differences in {title(metric)}: {said}."
    return svg.drawing(width, bottom + FOOT, label, *parts, class_="forest")


def _row(spread: Spread, x: Scale, top: float, row: int, width: int) -> Markup:
    contrast = spread.contrast
    middle = top + 40
    dots = [
        svg.circle(x(v), middle - 11 + 22 * ((i * _GOLDEN) % 1), 2.4, "run")
        for i, v in enumerate(spread.values)
        if x.holds(v)
    ]
    beyond = [
        (sum(v < x.low for v in spread.values), SIDE, "start", "‹ {} further"),
        (sum(v > x.high for v in spread.values), width - SIDE, "end", "{} further ›"),
    ]
    off = [
        svg.text(place, middle + 22, words.format(count), "small", anchor)
        for count, place, anchor, words in beyond
        if count
    ]
    mean = number(contrast.mean, contrast.metric, signed=True)
    label = svg.text(SIDE, top + 20, f"{contrast.rule}  {mean} {interval(contrast)}", "row")
    if isnan(contrast.mean):
        return label
    colour = f"rule{min(row + 1, 4)}"
    whisker = (
        None
        if isnan(contrast.low)
        else svg.line(x(contrast.low), middle, x(contrast.high), middle, f"whisker {colour}")
    )
    centre = svg.diamond(x(contrast.mean), middle, 6, f"centre {colour}")
    return join(dots, off, whisker, centre, label)


def _range(spreads: Sequence[Spread]) -> tuple[float, float]:
    """Zero, every interval and the central nine tenths of the runs."""
    ends = [0.0]
    for spread in spreads:
        contrast = spread.contrast
        ends += [v for v in (contrast.low, contrast.high, contrast.mean) if not isnan(v)]
        if spread.values:
            ends += np.quantile(spread.values, [0.05, 0.95]).tolist()
    low, high = min(ends), max(ends)
    pad = 0.06 * (high - low) or 0.5
    return low - pad, high + pad
