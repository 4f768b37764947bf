"""Tables and plots of the page: every number with its uncertainty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, isnan, log10

import numpy as np

from checkwise.page import Child, Markup, el, framed_table, join
from checkwise.study import Contrast, deciding, higher_is_better, sentences, told, verdict
from checkwise.study.report.facts import CohortFacts, SourceFacts, Spread
from checkwise.words import number

FEW = 10
LOSE = "runs that lose ≥ 1 point"
COUNTS = "small figures: runs better / equal / worse"


def paired_table(facts: CohortFacts) -> Markup:
    """Rules × metrics: the reference's level, then every rule's paired difference."""
    first = facts.contrasts(facts.rules[0])
    head = ["rule", *map(_head, first), LOSE]
    level = [
        el("td", sentences.shown(facts.levels[facts.reference][c.metric], c.metric), class_="num")
        for c in first
    ]
    rows = [
        el(
            "tr",
            el("th", facts.reference, el("small", "mean level"), scope="row"),
            level,
            el("td", "–", class_="num"),
            class_="reference",
        )
    ]
    rows += [_paired_row(rule, facts.contrasts(rule)) for rule in facts.rules]
    caption = (
        f"Differences to {facts.reference}, paired by run, with "
        f"{sentences.intervals_over(facts.contrasts(facts.rules[0]))}; {COUNTS}"
    )
    return framed_table(head, rows, caption)


def split_table(rule: str, by: str, groups: Mapping[str, Sequence[Contrast]]) -> Markup:
    first = next(iter(groups.values()))
    head = [by, *map(_head, first), LOSE]
    rows = [_paired_row(name, contrasts) for name, contrasts in groups.items()]
    few = any(row[0].n < FEW and row[0].over == "runs" for row in groups.values())
    caution = f". Intervals from fewer than {FEW} runs are too narrow: hints, not results" * few
    over = sentences.intervals_over([row for contrasts in groups.values() for row in contrasts])
    return framed_table(head, rows, f"{rule} by {by}, with {over}; {COUNTS}{caution}")


def unit_table(contrasts: Sequence[Contrast]) -> Markup:
    head = ["counted by", *map(_head, contrasts)]
    first = contrasts[0]
    decisive = deciding(first.units, crossed=first.crossed)
    counted = {
        name: found for name, found in first.units.items() if name in decisive or not found.decides
    }
    rows = [
        el(
            "tr",
            el("th", sentences.named_groups(name, found.groups), scope="row"),
            # A single run is a block of one.
            [_unit_cell(one, "block" if name == "single_run" else name) for one in contrasts],
        )
        for name, found in told(counted, first.n).items()
    ]
    return framed_table(head, rows, "95% intervals with groups of runs as the unit")


def _unit_cell(contrast: Contrast, name: str) -> Markup:
    interval = contrast.units[name]
    if not interval.decides:
        return el("td", "too few", class_="num")
    both_ends = sentences.ends(interval.low, interval.high, contrast.metric)
    zero = el("small", "includes zero" if interval.includes_zero else "excludes zero")
    return el("td", el("span", both_ends, class_="ci"), zero, class_="num")


def source_table(rows: Sequence[SourceFacts], reference: str) -> Markup:
    head = [
        "rule",
        "mean gap (points)",
        "median eligible",
        f"differs from {reference}",
        "only one eligible",
    ]
    body = [
        el(
            "tr",
            el("th", row.rule, scope="row"),
            el("td", number(row.mean_gap_pp, sentences.POINTS), class_="num"),
            el("td", f"{row.median_eligible:g}", class_="num"),
            el("td", "–" if row.rule == reference else f"{row.differ} of {row.runs}", class_="num"),
            el("td", f"{row.alone} of {row.runs}", class_="num"),
        )
        for row in rows
    ]
    return framed_table(head, body, "Choices on source validation")


def _head(contrast: Contrast) -> Markup:
    arrow = "higher is better" if higher_is_better(contrast.metric) else "lower is better"
    return el("span", sentences.heading(contrast), el("small", arrow))


def _paired_row(label: str, contrasts: Sequence[Contrast]) -> Markup:
    lost = next((c.lose_1pp for c in contrasts if not isnan(c.lose_1pp)), float("nan"))
    n = contrasts[0].n
    return el(
        "tr",
        el("th", label, el("small", f"n = {n}"), scope="row"),
        [_paired_cell(contrast) for contrast in contrasts],
        el("td", "–" if isnan(lost) else f"{100 * lost:.0f}%", class_="num"),
    )


def _paired_cell(contrast: Contrast) -> Markup:
    direction = verdict(contrast).direction
    median, trimmed = (
        sentences.shown(value, contrast.metric, signed=True)
        for value in (contrast.median, contrast.trimmed)
    )
    return el(
        "td",
        None if direction == "unclear" else join(el("em", direction, class_=direction), " "),
        el("b", sentences.change(contrast), title=f"median {median}, 5%-trimmed mean {trimmed}"),
        el("span", sentences.interval(contrast), class_="ci"),
        el(
            "small",
            f"{contrast.wins} / {contrast.ties} / {contrast.losses}",
            f" · {contrast.missing} missing" if contrast.missing else None,
        ),
        class_="num",
    )


ROW, TOP, FOOT, SIDE = 64, 34, 30, 10
# Positions that spread evenly whatever their number (the fraction of the golden ratio).
_GOLDEN = 0.6180339887


@dataclass(frozen=True)
class Scale:
    """A linear map from values to pixels; values outside are held at the ends."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        width = self.high - self.low or 1.0
        share = min(max((value - self.low) / width, 0.0), 1.0)
        return self.start + share * (self.end - self.start)

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers between two ends, about ``count`` of them.

    Example:
        >>> ticks(0, 1000)
        [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]
    """
    if not high > low:
        return [low]
    rough = (high - low) / count
    power = 10.0 ** floor(log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def forest_panel(spreads: Sequence[Spread], width: int = 400) -> Markup:
    """One metric; a row for each rule. Zero means no difference to the reference."""
    metric = spreads[0].contrast.metric
    low, high = _range(spreads)
    x = Scale(low, high, SIDE, width - SIDE)
    bottom = TOP + ROW * len(spreads)
    better = "better →" if higher_is_better(metric) else "← better"
    end = width - SIDE if higher_is_better(metric) else SIDE
    parts: list[Child] = [
        _text(SIDE, 14, f"Δ {sentences.heading(spreads[0].contrast)}", "panel"),
        _line(x(0), TOP - 8, x(0), bottom, "zero"),
        _line(SIDE, bottom, width - SIDE, bottom, "base"),
        _text(end, TOP - 6, better, "small", "end" if end > SIDE else "start"),
    ]
    parts += [
        _text(x(value), bottom + 16, f"{value:.6g}".replace("-", "−"), "tick", "middle")
        for value in ticks(low, high, 4)
    ]
    for row, spread in enumerate(spreads):
        parts.append(_row(spread, x, TOP + ROW * row, row, width))
    said = "; ".join(
        f"{s.contrast.rule} {sentences.change(s.contrast)} {sentences.interval(s.contrast)}"
        for s in spreads
    )
    label = f"Paired differences in {sentences.title(metric)}: {said}."
    return el(
        "svg",
        *parts,
        viewBox=f"0 0 {width} {bottom + FOOT}",
        role="img",
        aria_label=label,
        class_="plot forest",
    )


def _row(spread: Spread, x: Scale, top: float, row: int, width: int) -> Markup:
    contrast = spread.contrast
    middle = top + 40
    dots = [
        el("circle", cx=x(v), cy=middle - 11 + 22 * ((i * _GOLDEN) % 1), r=2.4, class_="run")
        for i, v in enumerate(spread.values)
        if x.holds(v)
    ]
    beyond = [
        (sum(v < x.low for v in spread.values), SIDE, "start", "‹ {} further"),
        (sum(v > x.high for v in spread.values), width - SIDE, "end", "{} further ›"),
    ]
    off = [
        _text(place, middle + 22, words.format(count), "small", anchor)
        for count, place, anchor, words in beyond
        if count
    ]
    said = f"{contrast.rule}  {sentences.change(contrast)} {sentences.interval(contrast)}"
    label = _text(SIDE, top + 20, said, "row")
    if isnan(contrast.mean):
        return label
    colour = f"rule{min(row + 1, 4)}"
    whisker = (
        None
        if isnan(contrast.low)
        else _line(x(contrast.low), middle, x(contrast.high), middle, f"whisker {colour}")
    )
    diamond = f"M{x(contrast.mean):.2f} {middle - 6:.2f}l6 6l-6 6l-6 -6z"
    centre = el("path", d=diamond, class_=f"centre {colour}")
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


def _text(x: float, y: float, content: str, class_: str = "", anchor: str = "start") -> Markup:
    return el("text", content, x=float(x), y=float(y), class_=class_ or None, text_anchor=anchor)


def _line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return el("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=class_)
