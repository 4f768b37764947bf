"""The tables of the page: numbers aligned, every cell with its uncertainty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan

from checkwise.page import Markup, el, framed_table, join
from checkwise.study import Contrast, deciding, higher_is_better, sentences, told, verdict
from checkwise.study.report.facts import CohortFacts, SourceFacts
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
    """The leading rule, one row per ``by`` (algorithm, dataset)."""
    first = next(iter(groups.values()))
    head = [by, *map(_head, first), LOSE]
    rows = [_paired_row(name, contrasts) for name, contrasts in groups.items()]
    few = any(row[0].n < FEW and row[0].over == "runs" for row in groups.values())
    caution = f". Intervals from fewer than {FEW} runs are too narrow: hints, not results" * few
    over = sentences.intervals_over([row for contrasts in groups.values() for row in contrasts])
    return framed_table(head, rows, f"{rule} by {by}, with {over}; {COUNTS}{caution}")


def unit_table(contrasts: Sequence[Contrast]) -> Markup:
    """One rule's differences with groups of runs as the unit: one row per unit."""
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
    """What each rule did where it looks."""
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
        el(
            "b",
            sentences.change(contrast),
            title=f"median {median}, 5%-trimmed mean {trimmed}",
        ),
        el("span", sentences.interval(contrast), class_="ci"),
        el(
            "small",
            f"{contrast.wins} / {contrast.ties} / {contrast.losses}",
            f" · {contrast.missing} missing" if contrast.missing else None,
        ),
        class_="num",
    )
