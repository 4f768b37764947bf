"""One run drawn: accuracy with its tolerance, reliability beneath, the choices marked."""

from __future__ import annotations

from math import isfinite, isnan

import numpy as np

from checkwise.figures.run_facts import TrajectoryFacts
from checkwise.page import svg
from checkwise.page.markup import Child, Markup, el, join
from checkwise.page.svg import Scale
from checkwise.page.words import NAMES

LEVELS = 7
LEFT, RIGHT, TOP = 46, 14, 26
TITLES = {"nll": "Source NLL", "cwece": "Source CwECE ×100"}


def trajectory_plot(facts: TrajectoryFacts, width: int = 860, *, panel: int = 104) -> Markup:
    """Stacked panels that share the axis of steps; ``panel`` is the height below accuracy."""
    x = Scale(facts.steps[0], facts.steps[-1], LEFT + 6, width - RIGHT - 6)
    shown = _in_view(facts)
    tall = 230 if width > 500 else 200
    panels = [_accuracy_panel(facts, shown, x, TOP, TOP + tall)]
    top = TOP + tall + 34
    for metric, values in facts.metrics.items():
        panels.append(_metric_panel(facts, metric, values, shown, x, top, top + panel))
        top += panel + 34
    bottom = top - 34
    axis = [
        svg.text(x(step), bottom + 18, svg.tick_text(step), "tick", "middle")
        for step in svg.ticks(facts.steps[0], facts.steps[-1], 8 if width > 500 else 4)
    ]
    guides = [
        svg.line(x(mark.step), TOP, x(mark.step), bottom, f"guide rule{i}")
        for i, mark in enumerate(facts.marks)
    ]
    label = svg.text(width - RIGHT, bottom + 36, "training step", "axis", "end")
    chosen = "; ".join(f"{mark.rule} chose step {mark.step}" for mark in facts.marks)
    return svg.drawing(
        width,
        bottom + 44,
        f"Source validation of {facts.name} over its training steps. {chosen}.",
        guides,
        panels,
        axis,
        label,
        class_="wide" if width > 500 else "narrow",
    )


def legend(facts: TrajectoryFacts) -> Markup:
    """Which mark is which, and what the colours mean."""
    items: list[Markup] = []
    for i, mark in enumerate(facts.marks):
        shape = svg.SHAPES[i % len(svg.SHAPES)](10, 10, 6, f"mark rule{i}")
        items.append(el("li", _icon(shape), el("b", mark.rule), f" step {mark.step}"))
    if facts.reliability is not None:
        values = _feasible_values(facts)
        swatches = [el("i", class_=f"swatch r{level}") for level in range(LEVELS)]
        name = NAMES[facts.reliability]
        items.append(
            el(
                "li",
                f"feasible, by {name}: {min(values):.3f} ",
                el("span", swatches, class_="ramp"),
                f" {max(values):.3f}",
            )
        )
    items.append(el("li", _icon(svg.circle(10, 10, 3.5, "dot out")), "outside the tolerance"))
    return el("ul", items, class_="legend")


def _icon(shape: Markup) -> Markup:
    return el("svg", shape, viewBox="0 0 20 20", class_="icon", aria_hidden="true")


def _in_view(facts: TrajectoryFacts) -> list[bool]:
    """Checkpoints near enough to the best accuracy to be drawn in place.

    Early training would flatten the tolerance to a line; what is further down sits on the edge.
    """
    accuracy = np.array(facts.accuracy)
    gaps = np.nanmax(accuracy) - accuracy
    usual = float(np.nanquantile(gaps, 0.75))
    if facts.delta_pp > 0:
        usual = min(max(usual, 4 * facts.delta_pp), 10 * facts.delta_pp)
    kept = (gaps <= max(usual, 1e-9)) | np.array(facts.feasible)
    return [bool(near) for near in kept]


def _accuracy_panel(
    facts: TrajectoryFacts, shown: list[bool], x: Scale, top: float, bottom: float
) -> Markup:
    best = max(a for a in facts.accuracy if isfinite(a))
    seen = [a for a, near in zip(facts.accuracy, shown, strict=True) if near and isfinite(a)]
    low = min(*seen, best - 1.3 * facts.delta_pp, best - 1e-6)
    pad = 0.08 * (best - low)
    y = Scale(low - pad, best + pad, bottom, top)
    edge = best - facts.delta_pp
    band = el(
        "rect",
        x=float(LEFT),
        y=y(best),
        width=x.end - LEFT + 6,
        height=max(y(edge) - y(best), 1.0),
        class_="band",
    )
    # At the left, where early checkpoints are out of view.
    tolerance = svg.text(LEFT + 6, y(edge) - 5, f"tolerance: {facts.delta_pp:g} points", "small")
    return join(
        _frame("Mean source accuracy (%)", x, y, top, bottom),
        band,
        svg.line(LEFT, y(edge), x.end + 6, y(edge), "edge"),
        tolerance if facts.delta_pp > 0 else None,
        _points(facts, facts.accuracy, x, y),
    )


def _metric_panel(
    facts: TrajectoryFacts,
    metric: str,
    values: tuple[float, ...],
    shown: list[bool],
    x: Scale,
    top: float,
    bottom: float,
) -> Markup:
    seen = [v for v, near in zip(values, shown, strict=True) if near and isfinite(v)]
    low, high = min(seen), max(seen)
    pad = 0.1 * (high - low) or 1e-6
    y = Scale(low - pad, high + pad, bottom, top)
    return join(
        _frame(TITLES[metric], x, y, top, bottom, count=4),
        _points(facts, values, x, y),
    )


def _frame(title: str, x: Scale, y: Scale, top: float, bottom: float, *, count: int = 5) -> Markup:
    parts: list[Child] = [svg.text(LEFT, top - 9, title, "panel")]
    for value in svg.ticks(y.low, y.high, count):
        parts.append(svg.line(LEFT, y(value), x.end + 6, y(value), "grid"))
        parts.append(svg.text(LEFT - 7, y(value) + 4, svg.tick_text(value), "tick", "end"))
    parts.append(svg.line(LEFT, bottom, x.end + 6, bottom, "base"))
    return join(*parts)


def _points(facts: TrajectoryFacts, values: tuple[float, ...], x: Scale, y: Scale) -> Markup:
    inside = [
        (x(step), y(value))
        for step, value in zip(facts.steps, values, strict=True)
        if isfinite(value) and y.holds(value)
    ]
    parts: list[Child] = [svg.polyline(inside, "path")]
    levels = _levels(facts)
    for t, (step, value) in enumerate(zip(facts.steps, values, strict=True)):
        if isnan(value):
            parts.append(svg.text(x(step), y.start - 3, "×", "lost", "middle"))
        elif not y.holds(value):
            edge = y(value)
            inward = -5 if edge == y.start else 5
            parts.append(svg.line(x(step), edge, x(step), edge + inward, "off"))
        else:
            kind = f"dot r{levels[t]}" if facts.feasible[t] else "dot out"
            radius = 4.5 if facts.feasible[t] else 3
            parts.append(svg.circle(x(step), y(value), radius, kind, _hover(facts, t)))
    for i, mark in enumerate(facts.marks):
        t = facts.steps.index(mark.step)
        shape = svg.SHAPES[i % len(svg.SHAPES)]
        parts.append(shape(x(mark.step), y(values[t]), 8 + 2.5 * i, f"mark rule{i}"))
    return join(*parts)


def _levels(facts: TrajectoryFacts) -> list[int]:
    """Which of the colours each checkpoint has: 0 for the best reliability among the feasible."""
    if facts.reliability is None:
        return [0] * len(facts.steps)
    feasible = _feasible_values(facts)
    low, width = min(feasible), max(feasible) - min(feasible)
    return [
        0
        if width == 0 or not isfinite(value)
        else min(LEVELS - 1, max(0, int(LEVELS * (value - low) / width)))
        for value in facts.metrics[facts.reliability]
    ]


def _feasible_values(facts: TrajectoryFacts) -> list[float]:
    assert facts.reliability is not None
    values = facts.metrics[facts.reliability]
    return [value for value, inside in zip(values, facts.feasible, strict=True) if inside]


def _hover(facts: TrajectoryFacts, t: int) -> str:
    parts = [f"step {facts.steps[t]}", f"accuracy {facts.accuracy[t]:.2f}%"]
    parts += [f"{NAMES[name]} {values[t]:.4f}" for name, values in facts.metrics.items()]
    return ", ".join(parts)
