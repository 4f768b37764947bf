"""The page of a cohort: the answer, then what it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from checkwise.page import (
    MOST_PP,
    Markup,
    bound_section,
    controls,
    el,
    live_details,
    live_run,
    masthead,
    paragraphs,
    section,
    whole_page,
)
from checkwise.statistics import RESAMPLES, SEED
from checkwise.study import OUTSIDE_THE_SEAL, Contrast, sentences, verdict
from checkwise.study.report.facts import CohortFacts
from checkwise.study.report.stages import StageFacts, stages_section
from checkwise.study.report.tables import (
    forest_panel,
    paired_table,
    source_table,
    split_table,
    unit_table,
)
from checkwise.words import counted, listed

TILES = ("target_nll", "target_accuracy", "target_cwece")
ROLE = {
    "development": "Development data: settings may have been chosen while looking at results like "
    "these, so this is not independent evidence.",
    "evaluation": "Evaluation data: evidence only as far as rules and settings were fixed before "
    "these results were opened.",
}


FOREST = (
    "Each dot is one run; the diamond is the mean, the bar its 95% interval. The axis covers the "
    "central nine tenths of the runs."
)
WHY_SEALED = (
    "The answer above belongs to the settings of this report. Results of other settings stay "
    "closed while you explore: a rule tuned by looking at unseen domains has seen them."
)


def cohort_page(
    facts: CohortFacts, data: Mapping[str, Any], stages: Sequence[StageFacts] = ()
) -> str:
    return whole_page(
        f"checkwise: {facts.name}",
        masthead(facts.name, f"{facts.role} data"),
        _top(facts),
        stages_section(stages, facts.reference) if stages else None,
        _source(facts, data),
        _held_out(facts),
        _bound(facts),
        _method(facts),
        data=data,
    )


def _top(facts: CohortFacts) -> Markup:
    rule = facts.rules[0]
    rows = facts.contrasts(rule)
    return el(
        "section",
        el(
            "p",
            f"Does {rule} choose better checkpoints than {facts.reference} for domains that "
            "training never saw?",
            class_="eyebrow",
        ),
        el("h1", sentences.headline(rows)),
        el("p", sentences.answer(rows), class_="answer"),
        el("div", (_tile(facts, metric) for metric in _tiles(rows)), class_="tiles"),
        el("p", sentences.spread(rows)),
        _by_unit(rows),
        el(
            "p",
            f"{facts.rules[0]}: {facts.registered}" + f" {OUTSIDE_THE_SEAL}" * facts.imported,
            class_=f"note seal {facts.registered.state}",
        ),
        el("p", counts(facts), " ", ROLE.get(facts.role, ""), class_="note"),
        el("p", trained_on(facts.machines), class_="note"),
        class_="top",
    )


def _by_unit(rows: Sequence[Contrast]) -> Markup | None:
    if rows[0].n < 2:
        return None
    shown = [sentences.pick(rows, metric) for metric in _tiles(rows)]
    elsewhere = sentences.elsewhere(shown)
    return el(
        "details",
        el("summary", "Would other seeds, splits or domains give the same?"),
        el("p", sentences.WHY_GROUPS, class_="note"),
        unit_table(shown),
        paragraphs(*elsewhere) if elsewhere else None,
    )


def _tiles(rows: Sequence[Contrast]) -> list[str]:
    """The metrics shown as tiles: those of TILES that were measured."""
    measured = {row.metric for row in rows}
    return [metric for metric in TILES if metric in measured]


def _tile(facts: CohortFacts, metric: str) -> Markup:
    contrast = sentences.pick(facts.contrasts(facts.rules[0]), metric)
    before = sentences.shown(facts.levels[facts.reference][metric], metric)
    after = sentences.shown(facts.levels[facts.rules[0]][metric], metric)
    return el(
        "div",
        el("span", f"Δ {sentences.heading(contrast)}"),
        el("strong", sentences.change(contrast)),
        el("span", sentences.interval(contrast), class_="ci"),
        el("span", f"{before} → {after}", class_="level"),
        el("em", sentences.badge(contrast), class_=verdict(contrast).direction),
        class_="tile",
    )


def counts(facts: CohortFacts) -> str:
    """How much data there is and what was left out."""
    left = [
        f"{facts.unfinished} unfinished" if facts.unfinished else "",
        f"{facts.wrecked} with nothing but diverged checkpoints" if facts.wrecked else "",
    ]
    left_out = " and ".join(part for part in left if part)
    about = f"{', '.join(facts.algorithms)}; {', '.join(facts.datasets)}"
    return (
        f"{counted(facts.runs, 'run')} ({about})"
        + (f", {left_out} left out" if left_out else ", none left out")
        + f"; {counted(facts.diverged, 'diverged checkpoint')}."
    )


def trained_on(machines: Mapping[str, int]) -> str:
    named = [f"{name} ({counted(runs, 'run')})" for name, runs in machines.items()]
    where = (
        f"Trained on {listed(named)}."
        if named
        else "The processor that the runs were trained on is not recorded."
    )
    return (
        f"{where} Training again on another processor rounds differently: the last bits may "
        "differ, and in small studies the conclusions too."
    )


def _held_out(facts: CohortFacts) -> Markup:
    """Held-out results, collapsed until the reader opens them; the report's own are at the top."""
    by_metric = [
        forest_panel([facts.spreads[rule][m] for rule in facts.rules])
        for m in range(len(facts.spreads[facts.rules[0]]))
    ]
    mean = (
        " ac-mean is the expected result of a uniform draw from the feasible set: the part of the "
        "effect that needs no ranking."
        if "ac-mean" in facts.rules
        else ""
    )
    return el(
        "details",
        el(
            "summary",
            el("span", "Held-out domains · opened to evaluate, never to choose", class_="side"),
            el("span", "Open held-out results", class_="open-seal"),
            el("small", WHY_SEALED),
        ),
        el("h2", "Results on unseen domains"),
        _live_targets(),
        el("h3", "As reported"),
        el(
            "p",
            f"Differences to {facts.reference} on the same run, with "
            f"{sentences.intervals_over(facts.contrasts(facts.rules[0]))}.",
            mean,
        ),
        paired_table(facts),
        el("figure", el("div", by_metric, class_="panels"), el("figcaption", FOREST)),
        split_table(facts.rules[0], "algorithm", facts.by_algorithm),
        split_table(facts.rules[0], "dataset", facts.by_dataset)
        if len(facts.by_dataset) > 1
        else None,
        class_="heldout",
        id="heldout",
        data_live="yes",
    )


def _live_targets() -> Markup:
    return el(
        "div",
        el("h3", "At the settings chosen above"),
        el("p", id="live-answer", class_="answer", aria_live="polite"),
        el("p", id="live-note", class_="note"),
        el("div", id="rules-target"),
        class_="js-only",
    )


def _source(facts: CohortFacts, data: Mapping[str, Any]) -> Markup:
    example = el(
        "p",
        el("b", str(facts.example.run)),
        ", the median run of those where the rules differ. ",
        facts.example.explain(),
    )
    return section(
        "source",
        "Source validation · all that the rules read",
        "Explore the choices",
        el(
            "p",
            "Change the run, the rule or the tolerance. It opens on the median run of those where "
            "the rules differ; no held-out result decided which.",
            class_="js-only",
        ),
        _other_reference(facts.reference, data["start"]["reference"]),
        controls(data),
        live_run(example),
        el("h3", "Over all runs", class_="js-only"),
        el("p", id="over-runs", class_="js-only", aria_live="polite"),
        el("div", source_table(facts.source, facts.reference), class_="static-only"),
        el("div", id="rules-source", class_="js-only"),
        live_details("runs-table", "The choice in every run"),
        id="explore",
    )


def _other_reference(asked: str, explored: str) -> Markup | None:
    if asked == explored:
        return None
    return el(
        "p",
        f"{asked} chooses no checkpoint from source validation, so choices are compared with those "
        f"of {explored} here.",
        class_="note js-only",
    )


def _bound(facts: CohortFacts) -> Markup | None:
    """The bound with its conditions; nothing where it says nothing useful."""
    bound = facts.bound
    if bound is None or bound.median > MOST_PP:
        return None
    size = (
        f"{bound.median:.2f} points"
        if bound.smallest == bound.largest
        else f"{bound.median:.2f} points in the median run ({bound.smallest:.2f} to "
        f"{bound.largest:.2f})"
    )
    sentence = (
        f"In each run, with probability at least {1 - bound.alpha:g}, the population mean source "
        f"accuracy of what {facts.rules[0]} chose is at most {size} below the best checkpoint."
    )
    return bound_section(sentence, bound.conditions, bound.not_promised)


def _method(facts: CohortFacts) -> Markup:
    count, first = facts.domains_count, facts.contrasts(facts.rules[0])[0]
    return el(
        "footer",
        paragraphs(
            f"Tolerance {facts.tolerance}.{f' {count}' * bool(count)} Accuracy and "
            "calibration errors are ×100, NLL is unscaled. ECE and CwECE are soft-bin squared gaps "
            f"and not comparable with hard-bin values. {_weights(first)}",
            _about_intervals(first),
        ),
    )


def _weights(first: Contrast) -> str:
    if first.over not in ("places", "domains"):
        return "Every run weighs the same."
    return "In levels every run weighs the same, in differences every held-out domain."


def _about_intervals(first: Contrast) -> str:
    """What the reported intervals are, and what they leave out."""
    if first.over in ("places", "domains"):
        return (
            f"Intervals as reported: 95% t intervals over held-out {first.over}, each counting "
            "once, however many runs it has."
        )
    if first.over != "runs":
        return (
            f"Intervals as reported: 95% cluster-t over {first.over}; the runs of a block share "
            "both seeds."
        )
    return (
        f"Intervals as reported: 95% percentile bootstrap over run pairs, {RESAMPLES:,} "
        f"resamples, seed {SEED}. Runs that share seeds and splits are not independent, so the "
        "true uncertainty is larger than these intervals."
    )
