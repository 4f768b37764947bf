"""What the script of the page starts from: runs, rules and settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from checkwise.errors import NoGuaranteeError
from checkwise.page.packed_numbers import payload
from checkwise.selection import (
    ACCURACY,
    DEFAULT_RULE,
    OBJECTIVES,
    REFERENCE,
    TOLERANCES,
    Rule,
    Selection,
    accuracy_constrained,
    early,
    explain,
    plain,
    pure,
    random,
    rules,
    source_accuracy,
    tolerance_in_words,
    wald,
)
from checkwise.words import listed

KINDS = {
    source_accuracy: "source",
    early: "early",
    random: "random",
    accuracy_constrained: "constrained",
    pure: "pure",
    wald: "wald",
}


CONTROLS = ("delta_pp", "q", "objectives", "threshold_pp")


THRESHOLD_PP = 80  # where the control of wald starts; the rule has no default


def run_data(selection: Selection, name: str) -> dict[str, Any]:
    """The data of a single run's page; nothing held out is in it."""
    run = selection.trajectory
    data = payload({name: run}, directions=selection.choice.directions)
    return {
        **explored(data, {selection.rule: [selection]}, selection.rule, REFERENCE, 0),
        "paths": None if run.paths is None else list(run.paths),
    }


def explored(
    data: dict[str, Any],
    chosen: Mapping[str, list[Selection]],
    rule: str,
    reference: str,
    first: int,
) -> dict[str, Any]:
    """Data with the rules to explore, and in every run the choices that are not recomputed."""
    computed = page_rules(metric["name"] for metric in data["metrics"])
    fixed = {
        name: selections
        for name, selections in chosen.items()
        if not _recomputable(selections[0], computed)
    }
    entries = [*(entry for entry in computed if entry["name"] not in fixed)]
    entries += [_reported_rule(selections[0]) for selections in fixed.values()]
    runs = [
        {**run, "reported": {name: _reported(choices[i]) for name, choices in fixed.items()}}
        for i, run in enumerate(data["runs"])
    ]
    compared = reference if reference in {entry["name"] for entry in entries} else REFERENCE
    start = {**_start(data, chosen[rule][first]), "run": first, "reference": compared}
    return {**data, "runs": runs, "rules": entries, "start": start}


def page_rules(metrics: Iterable[str]) -> list[dict[str, Any]]:
    """Rules that ``rules.js`` computes and that need nothing beyond these metrics."""
    available = {"accuracy", *metrics}
    return [
        _rule_facts(rule, kind, _objectives(rule), [p for p in CONTROLS if p in rule.defaults])
        for rule in rules().values()
        if (kind := _kind(rule)) is not None and available.issuperset(rule.needs)
    ]


def _kind(rule: Rule) -> str | None:
    """Which of the page's ways to rank a rule is, by what it does and not by its name."""
    if not isinstance(rule.rank, partial):
        return KINDS.get(rule.rank)
    return KINDS.get(rule.rank.func) if rule.rank.keywords == rule.fixed else None


def _objectives(rule: Rule) -> tuple[str, ...]:
    metric = rule.fixed.get("metric")
    return tuple(rule.fixed.get("objectives", () if metric is None else (metric,)))


def _rule_facts(
    rule: Rule, kind: str, objectives: Iterable[str], takes: list[str]
) -> dict[str, Any]:
    return {
        "name": rule.name,
        "summary": rule.summary,
        "kind": kind,
        "objectives": list(objectives),
        "takes": takes,
        "constrained": rule.constrained,
        "tiesByAccuracy": rule.ties_by_accuracy,
    }


def _recomputable(selection: Selection, computed: Iterable[Mapping[str, Any]]) -> bool:
    rule = selection.rule_used
    return (
        selection.choice.kind.fixed
        and not selection.guard_acted
        and any(entry["name"] == rule.name for entry in computed)
        and isinstance(selection.choice.weights, str)
        and all(
            value == rule.defaults.get(name)
            for name, value in selection.params.items()
            if name not in CONTROLS
        )
    )


def _reported_rule(selection: Selection) -> dict[str, Any]:
    rule = selection.rule_used
    ranked_by = [name for name in selection.looked_at if name in selection.trajectory.metrics]
    facts = _rule_facts(rule, "reported", ranked_by, [])
    if selection.guard_acted:
        facts["summary"] = (
            f"within {tolerance_in_words(selection)} of the best accuracy, the earliest: "
            "validation is too good to rank by probabilities"
        )
    elif not selection.choice.kind.fixed:
        kept = TOLERANCES[selection.choice.kind.name]
        facts["summary"] = f"{kept}, nearest to the best {listed(ranked_by)}"
    elif selection.constraint != ACCURACY:
        facts["summary"] = (
            f"within {tolerance_in_words(selection)}, nearest to the best {listed(ranked_by)}"
        )
    return {
        **facts,
        "tolerance": _band(selection),
        "ownWeights": not isinstance(selection.choice.weights, str),
    }


def _band(selection: Selection) -> float:
    """How far below the best accuracy the band is drawn; 0 where no such edge decided."""
    fixed = selection.choice.kind.fixed or selection.guard_acted
    by_points = selection.keeps_accuracy and fixed
    return float(selection.tolerance_pp) if by_points else 0.0


def _reported(selection: Selection) -> dict[str, Any]:
    """The eligible checkpoints best first, and what is said of the choice."""
    eligible = int(selection.ranking.eligible.sum())
    try:
        guarantee = selection.guarantee(paired=False)
        bound: dict[str, Any] = {"bound_pp": guarantee.bound_pp, "radius_pp": guarantee.radius_pp}
    except NoGuaranteeError as error:
        bound = {"none": str(error)}
    return {
        "ranked": np.argsort(selection.rank)[:eligible].tolist(),
        "words": explain(selection),
        "bound": bound,
    }


def _start(data: Mapping[str, Any], selection: Selection) -> dict[str, Any]:
    """The settings of the report, for the controls."""
    usual = rules()[DEFAULT_RULE].defaults
    params = {"threshold_pp": THRESHOLD_PP, **usual, **selection.params}
    named = [metric["name"] for metric in data["metrics"]]
    default = [name for name in OBJECTIVES["nc"] if name in named] or named[-1:]
    own = selection.params.get("objectives") or selection.rule_used.fixed.get("objectives")
    return {
        "rule": selection.rule,
        "delta": str(plain(params["delta_pp"])),
        "threshold": str(plain(params["threshold_pp"])),
        "q": f"{float(params['q']):g}",
        "objectives": list(own or default),
        "weights": selection.choice.weights
        if isinstance(selection.choice.weights, str)
        else "equal",
        "worst": selection.choice.worst_domain,
    }
