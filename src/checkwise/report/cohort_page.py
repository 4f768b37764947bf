"""The page of a cohort: the answer, then what it rests on."""

from __future__ import annotations

from checkwise.report import parts, words
from checkwise.report.facts import CohortFacts
from checkwise.report.forest_plot import forest_panel
from checkwise.report.markup import Markup, el
from checkwise.report.tables import algorithm_table, paired_table, source_table
from checkwise.study.bootstrap import RESAMPLES, SEED
from checkwise.study.cohort import MAIN_METRICS

TILES = ("target_nll", "target_accuracy", "target_cwece")
ROLE = {
    "development": "Development data: settings may have been chosen while looking at results like "
    "these, so this is not independent evidence.",
    "evaluation": "Evaluation data: evidence only as far as rules and settings were fixed before "
    "these results were opened.",
}


def cohort_page(facts: CohortFacts) -> str:
    """The page as text."""
    return parts.document(
        f"checkwise: {facts.name}",
        parts.masthead(facts.name, f"{facts.role} data"),
        _top(facts),
        _held_out(facts),
        _source(facts),
        _bound(facts),
        _method(facts),
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
        el("h1", words.headline(rows)),
        el("p", words.answer(rows), class_="answer"),
        el("div", (_tile(facts, metric) for metric in TILES), class_="tiles"),
        el("p", words.spread(rows)),
        el("p", counts(facts), " ", ROLE.get(facts.role, ""), class_="note"),
        class_="top",
    )


def _tile(facts: CohortFacts, metric: str) -> Markup:
    contrast = words.pick(facts.contrasts(facts.rules[0]), metric)
    unit = words.unit(metric, contrast.scale)
    found = words.verdict(contrast)
    before = words.number(facts.levels[facts.reference][metric], metric)
    after = words.number(facts.levels[facts.rules[0]][metric], metric)
    return el(
        "div",
        el("span", f"Δ {words.title(metric)}" + (f" ({unit})" if unit else "")),
        el("strong", words.number(contrast.mean, metric, signed=True)),
        el("span", words.interval(contrast), class_="ci"),
        el("span", f"{before} → {after}", class_="level"),
        el("em", "includes zero" if found == "unclear" else found, class_=found),
        class_="tile",
    )


def counts(facts: CohortFacts) -> str:
    """How much data there is and what was left out."""
    left = [
        f"{facts.unfinished} unfinished" if facts.unfinished else "",
        f"{facts.wrecked} with nothing but diverged checkpoints" if facts.wrecked else "",
    ]
    left_out = " and ".join(part for part in left if part)
    return (
        f"{words.runs(facts.runs)} ({', '.join(facts.algorithms)}; {', '.join(facts.datasets)})"
        + (f", {left_out} left out" if left_out else ", none left out")
        + f"; {facts.diverged} diverged checkpoints."
    )


def _held_out(facts: CohortFacts) -> Markup:
    by_metric = [
        forest_panel([facts.spreads[rule][m] for rule in facts.rules])
        for m in range(len(MAIN_METRICS))
    ]
    mean = (
        " ac-mean is the expected result of a uniform draw from the feasible set: the part of the "
        "effect that needs no ranking."
        if "ac-mean" in facts.rules
        else ""
    )
    return parts.section(
        "heldout",
        "Held-out domains · opened to evaluate, never to choose",
        "Results on unseen domains",
        el(
            "p",
            f"Differences to {facts.reference} on the same run, with 95% intervals over runs.",
            mean,
        ),
        paired_table(facts),
        el("figure", el("div", by_metric, class_="panels"), _forest_caption()),
        algorithm_table(facts.rules[0], facts.by_algorithm),
    )


def _forest_caption() -> Markup:
    return el(
        "figcaption",
        "Each dot is one run; the diamond is the mean, the bar its 95% interval. The axis covers "
        "the central nine tenths of the runs.",
    )


def _source(facts: CohortFacts) -> Markup:
    return parts.section(
        "source",
        "Source validation · all that the rules read",
        "How the choices were made",
        source_table(facts.source, facts.reference),
        parts.trajectory_figure(
            facts.example,
            el("b", facts.example.name),
            f", the run with the median feasible set ({facts.example_eligible} checkpoints), "
            "so no result decided which run is shown.",
        ),
    )


def _bound(facts: CohortFacts) -> Markup:
    if facts.bound is None:
        return parts.bound_section("", (), (), facts.no_bound)
    bound = facts.bound
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
    return parts.bound_section(sentence, bound.conditions, bound.not_promised, "")


def _method(facts: CohortFacts) -> Markup:
    return el(
        "footer",
        parts.paragraphs(
            f"Tolerance {facts.delta_pp} points. Accuracy and calibration errors are ×100, NLL is "
            "unscaled. ECE and CwECE are soft-bin squared gaps and not comparable with hard-bin "
            "values. Every run weighs the same.",
            f"Intervals: 95% percentile bootstrap over run pairs, {RESAMPLES:,} resamples, seed "
            f"{SEED}. Runs that share seeds and splits are not independent, so the true "
            "uncertainty is larger than these intervals.",
        ),
    )
