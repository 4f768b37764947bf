"""The page of a single run: which checkpoint, why, how sure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkwise.figures.run_facts import RunFacts
from checkwise.page import parts
from checkwise.page.explorer import controls, live_run
from checkwise.page.markup import Markup, el
from checkwise.page.tables import ranked_table

FIRST = 10
MAIN = ("rank", "step", "accuracy", "gap_pp", "score", "nll", "ece", "cwece")


def run_page(facts: RunFacts, data: Mapping[str, Any]) -> str:
    """The page as text; ``data`` is what its script computes with."""
    figure = parts.trajectory_figure(
        facts.trajectory,
        "Filled checkpoints are within the tolerance of the best source accuracy; ",
        f"{facts.rule} ranks only those.",
    )
    return parts.document(
        f"checkwise: step {facts.step} of {facts.title}",
        parts.masthead(facts.title),
        el(
            "section",
            el("p", "Which checkpoint should be used?", class_="eyebrow"),
            el("h1", f"Step {facts.step}"),
            el("p", facts.explanation, class_="answer"),
            el("p", "Weights: ", el("code", facts.path)) if facts.path else None,
            _tiles(facts),
            [el("p", f"Note: {note}", class_="note") for note in facts.notes],
            class_="top",
        ),
        parts.section(
            "source",
            "Source validation · all that the rule reads",
            "The run, and other ways to choose from it",
            controls(data),
            live_run(figure, _ranked(facts)),
            el("p", "Weights: ", el("code", id="weights-path"), class_="js-only"),
            id="explore",
        ),
        _bound(facts),
        data=data,
    )


def _tiles(facts: RunFacts) -> Markup:
    cells = [
        ("mean source accuracy", f"{facts.accuracy:.2f}%"),
        ("gap to the best", f"{facts.gap_pp:.2f} points"),
        ("feasible set", f"{facts.eligible} of {facts.checkpoints}"),
    ]
    tiles = [
        el("div", el("span", label), el("strong", value), class_="tile") for label, value in cells
    ]
    return el("div", tiles, class_="tiles")


def _ranked(facts: RunFacts) -> Markup:
    every = [name for name in facts.columns if name not in ("feasible", "diverged")]
    main = [name for name in every if name in MAIN]
    return el(
        "div",
        ranked_table(facts.columns, facts.rows[:FIRST], main),
        el(
            "details",
            el("summary", f"All {len(facts.rows)} checkpoints and metrics"),
            ranked_table(facts.columns, facts.rows, every),
        ),
    )


def _bound(facts: RunFacts) -> Markup:
    if facts.bound is None:
        return parts.bound_section("", (), (), facts.no_bound)
    bound = facts.bound
    sentence = (
        f"With probability at least {1 - bound.alpha:g}, the population {bound.quantity} of step "
        f"{facts.step} is at most {bound.bound_pp:.2f} points below the best of this run."
    )
    return parts.bound_section(sentence, bound.conditions, bound.not_promised, "")
