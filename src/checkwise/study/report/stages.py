"""From a choice to a deployed model: four stages side by side on domains that nobody trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from checkwise.page import Markup, el, join, section
from checkwise.selection import REFERENCE
from checkwise.study import Cohort, Contrast, method, sentences, verdict
from checkwise.study.report.facts import Spread, spreads_of
from checkwise.study.report.tables import forest_panel
from checkwise.words import counted

METRICS: Final = ("target_nll", "target_accuracy")


@dataclass(frozen=True)
class Stage:
    """One stage."""

    title: str  # what is done
    row: str  # the row of ``compare`` that does it
    what: str  # the model that it leaves
    models: int = 1  # how many networks that model runs


STAGES: Final = (
    Stage("Choose", "ac-nc", "one checkpoint"),
    Stage("Average", "mean-probs-5", "the mean probabilities of five near the best", 5),
    Stage("Calibrate", "deploy", "the chosen checkpoint, softened"),
    Stage("Deploy", "deploy-mean-probs-5", "the average, softened", 5),
)
# Stages that have to be made from weights first.
MADE: Final = tuple(stage.row for stage in STAGES if method(stage.row).recipe is not None)


@dataclass(frozen=True)
class StageFacts:
    """A stage and its differences to the reference, one per metric."""

    stage: Stage
    spreads: tuple[Spread, ...]


def stage_facts(
    cohort: Cohort, stages: Sequence[Stage] = STAGES, reference: str = REFERENCE
) -> tuple[StageFacts, ...]:
    rows = [method(stage.row).called(stage.title) for stage in stages]
    tables = cohort.differences(rows, reference, metrics=METRICS)
    return tuple(
        StageFacts(stage, spreads_of(table)) for stage, table in zip(stages, tables, strict=True)
    )


def stages_section(facts: Sequence[StageFacts], reference: str = REFERENCE) -> Markup:
    over = sentences.intervals_over([spread.contrast for one in facts for spread in one.spreads])
    return section(
        "heldout",
        "Unseen domains · as reported",
        "From a choice to a model",
        el(
            "p",
            f"Four stages on the same runs, each as a difference to {reference} on domains that "
            f"training never saw, with {over}. Each stage was made from source validation alone.",
        ),
        el("div", [_tile(one) for one in facts], class_="tiles"),
        el(
            "figure",
            el(
                "div",
                [
                    forest_panel([one.spreads[m] for one in facts])
                    for m in range(len(facts[0].spreads))
                ],
                class_="panels",
            ),
            el(
                "figcaption",
                "Each dot is one run; the diamond is the mean, the bar its 95% interval.",
            ),
        ),
        id="stages",
    )


def _tile(facts: StageFacts) -> Markup:
    stage, (nll, *others) = facts.stage, facts.spreads
    contrast = nll.contrast
    return el(
        "div",
        el("b", stage.title),
        el("span", stage.what),
        el("span", f"Δ {sentences.title(contrast.metric)}", class_="level"),
        el("strong", sentences.change(contrast)),
        el("span", sentences.interval(contrast), class_="ci"),
        el("em", sentences.badge(contrast), class_=verdict(contrast).direction),
        join(*(_beside(other.contrast) for other in others)),
        el("span", f"runs {counted(stage.models, 'network')}"),
        class_="tile",
    )


def _beside(contrast: Contrast) -> Markup:
    said = f"{sentences.change(contrast)} {sentences.interval(contrast)}"
    return join(el("span", f"Δ {sentences.heading(contrast)}"), el("span", said, class_="ci"))
