"""A run's trajectory as a picture of its own: one SVG file that needs no page around it."""

from __future__ import annotations

import re
from dataclasses import replace

from checkwise.figures.run_facts import TrajectoryFacts
from checkwise.page import svg
from checkwise.page.assets import assets
from checkwise.page.markup import Child, Markup, el
from checkwise.page.trajectory_plot import LEVELS, trajectory_plot
from checkwise.page.words import NAMES

WIDTH, EDGE, HEAD = 860, 20, 66


def trajectory_picture(facts: TrajectoryFacts) -> str:
    """Accuracy with its tolerance, and NLL beneath it, on a card that suits any background."""
    shown = {name: facts.metrics[name] for name in ("nll",) if name in facts.metrics}
    facts = replace(facts, metrics=shown or facts.metrics)
    plot = trajectory_plot(facts, WIDTH, panel=150)
    height = float(re.findall(r'viewBox="0 0 \d+ ([\d.]+)"', plot)[0])
    inner = plot[plot.index(">") + 1 : plot.rindex("</svg>")]
    whole = el(
        "svg",
        el("title", f"Source validation of {facts.name}"),
        el("style", Markup(_style())),
        el(
            "rect",
            x=0.5,
            y=0.5,
            width=WIDTH + 2 * EDGE - 1.0,
            height=height + HEAD + EDGE - 1.0,
            rx=10,
            class_="card",
        ),
        _legend(facts),
        el("g", Markup(inner), transform=f"translate({EDGE} {HEAD})"),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH + 2 * EDGE} {height + HEAD + EDGE:g}",
        width=WIDTH + 2 * EDGE,
        height=f"{height + HEAD + EDGE:g}",
        role="img",
    )
    return f"{whole}\n"


def _style() -> str:
    """The colours and the marks of the page, and a card to draw on."""
    own = ".card { fill: var(--card); stroke: var(--line); } svg .key { fill: var(--ink); }"
    return assets("colours.css", "drawing.css") + own


def _legend(facts: TrajectoryFacts) -> Markup:
    x, y = EDGE + 46.0, 34.0
    parts: list[Child] = []
    for i, mark in enumerate(facts.marks):
        said = f"{mark.rule} chose step {mark.step}"
        parts.append(svg.SHAPES[i % len(svg.SHAPES)](x, y, 6.5, f"mark rule{i}"))
        parts.append(svg.text(x + 15, y + 4.5, said, "key"))
        x += 40 + 6.7 * len(said)
    if facts.reliability is not None:
        values = [
            v
            for v, inside in zip(facts.metrics[facts.reliability], facts.feasible, strict=True)
            if inside
        ]
        low = f"within the tolerance, {NAMES[facts.reliability]} {min(values):.2f}"
        parts.append(svg.text(x, y + 4.5, low, "key"))
        x += 6.5 * len(low) + 6
        for level in range(LEVELS):
            parts.append(
                el("rect", x=x, y=y - 6, width=12.0, height=12.0, class_=f"swatch r{level}")
            )
            x += 12
        parts.append(svg.text(x + 8, y + 4.5, f"{max(values):.2f}", "key"))
    return el("g", *parts)
