"""What the script of a study's page shows: at every tolerance what Python chose and compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Final

from checkwise.page import (
    Piece,
    merged,
    metric_facts,
    piece,
    rule_facts,
    run_facts,
    start_of,
    stops_with,
    view_of,
)
from checkwise.records import RunKey
from checkwise.selection import REFERENCE, Choice, Selection
from checkwise.study import Cohort, Contrast, contrasts, higher_is_better, sentences, verdict
from checkwise.study.report.facts import CohortFacts, choices, source_facts

STOPS: Final = ("0", "0.1", "0.25", "0.5", "0.75", "1", "1.5", "2", "3", "5")
BESIDE: Final = ("ac-early", "pure-nll")  # what the rules of a report are best seen beside
SHOWN: Final = ("accuracy", "nll", "ece", "cwece")
LISTED: Final = 5

Chosen = Mapping[str, Mapping[RunKey, Selection]]


def cohort_data(
    cohort: Cohort, facts: CohortFacts, params: Mapping[str, Any], domains: Mapping[str, Any]
) -> dict[str, Any]:
    """The data of a study's page, as the report's settings are."""
    keys = sorted(cohort.usable)
    own = facts.example.choice
    stops = stops_with(own, STOPS) if _delta(facts.example) else [STOPS[0]]
    available = cohort.main_metrics
    beside = [rule for rule in BESIDE if rule == "ac-early" or "target_nll" in available]
    usual = facts.reference if facts.reference in facts.chosen else REFERENCE
    names = list(dict.fromkeys((usual, *facts.chosen, *beside)))
    at = [_at(cohort, names, params, domains, stop) for stop in stops]
    rules = [name for name in names if name in at[0]]
    return {
        "metrics": [metric_facts(name) for name in SHOWN],
        "rules": [_rule(at[0][name]) for name in rules],
        "stops": stops,
        "runs": [
            run_facts(
                str(key),
                cohort.usable[key],
                {"report": _view(at[0][rules[0]][key])},
                {f"{rule}||report": _pieces(at, rule, key, stops) for rule in rules},
            )
            for key in keys
        ],
        "start": {
            "run": keys.index(facts.example_key),
            "rule": facts.rules[0],
            "stop": start_of(stops, own) if _delta(facts.example) else 0,
            "q": "",
            "weighting": "report",
            "reference": usual,
        },
        "study": {
            "reference": facts.reference,
            "source": {rule: _over(at, rule, usual) for rule in rules},
            **_held_out(cohort, facts, params, domains, stops),
        },
    }


def _delta(selection: Selection) -> bool:
    return "delta_pp" in selection.params and selection.choice.kind.fixed


def _at(
    cohort: Cohort,
    rules: Sequence[str],
    params: Mapping[str, Any],
    domains: Mapping[str, Any],
    stop: str,
) -> Chosen:
    return choices(cohort, rules, {**params, "delta_pp": stop}, dict(domains))


def _rule(chosen: Mapping[RunKey, Selection]) -> dict[str, Any]:
    one = next(iter(chosen.values()))
    return rule_facts(one.rule, Choice(one.rule, dict(one.params), guard=False))


def _view(selection: Selection) -> dict[str, Any]:
    return {
        name: values
        for name, values in view_of(selection.columns).items()
        if name in (*SHOWN, "gap")
    }


def _pieces(at: Sequence[Chosen], rule: str, key: RunKey, stops: Sequence[str]) -> list[Piece]:
    chosen = [selections[rule][key] for selections in at]
    deltas = stops if _delta(chosen[0]) else [""] * len(stops)
    each = enumerate(zip(chosen, deltas, strict=True))
    return merged(piece(one, i, delta=delta, most=LISTED) for i, (one, delta) in each)


def _over(at: Sequence[Chosen], rule: str, usual: str) -> list[Any]:
    found = []
    for chosen in at:
        facts = source_facts(rule, chosen[rule], chosen[usual])
        found.append(
            {
                "gap": facts.mean_gap_pp,
                "differ": facts.differ,
                "alone": facts.alone,
                "median": f"{facts.median_eligible:g}",
            }
        )
    return _changes(found)


def _changes(values: Sequence[Any]) -> list[Any]:
    """Values with the index of the stop from which on they hold."""
    return [[i, v] for i, v in enumerate(values) if i == 0 or v != values[i - 1]]


def _held_out(
    cohort: Cohort,
    facts: CohortFacts,
    params: Mapping[str, Any],
    domains: Mapping[str, Any],
    stops: Sequence[str],
) -> dict[str, Any]:
    """Every rule against the reference at every tolerance."""
    answers: dict[str, list[str]] = {rule: [] for rule in facts.rules}
    rows: dict[str, list[Any]] = {rule: [] for rule in facts.rules}
    first = facts.contrasts(facts.rules[0])
    for stop in stops:
        asked = {**params, "delta_pp": stop} if len(stops) > 1 else dict(params)
        tables = cohort.differences(
            facts.rules, facts.reference, metrics=cohort.main_metrics, **domains, **asked
        )
        for table in tables:
            found = contrasts(table)
            answers[table.rule].append(sentences.answer(found))
            rows[table.rule].append(
                {"sizes": f"n = {found[0].n}", "cells": [_cell(contrast) for contrast in found]}
            )
    return {
        "answers": {rule: _changes(said) for rule, said in answers.items()},
        "targets": {rule: _changes(cells) for rule, cells in rows.items()},
        "metrics": [
            {
                "name": one.metric,
                "title": sentences.heading(one),
                "better": f"{'higher' if higher_is_better(one.metric) else 'lower'} is better",
            }
            for one in first
        ],
    }


def _cell(contrast: Contrast) -> dict[str, Any]:
    counts = f"{contrast.wins} / {contrast.ties} / {contrast.losses}"
    missing = f" · {contrast.missing} missing" * bool(contrast.missing)
    numbers = {name: float(getattr(contrast, name)) for name in ("mean", "low", "high")}
    return {
        "found": verdict(contrast).direction,
        "shown": sentences.change(contrast),
        "interval": sentences.interval(contrast),
        "counts": counts + missing,
        **{name: value if isfinite(value) else None for name, value in numbers.items()},
        **{name: getattr(contrast, name) for name in ("wins", "ties", "losses", "n")},
    }
