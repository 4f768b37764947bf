"""The rules that the page can compute by itself, told apart by what they do, not by their names."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from checkwise.selection import Rule, baselines, rules
from checkwise.selection.constrained import accuracy_constrained

KINDS = {
    baselines.source_accuracy: "source",
    baselines.early: "early",
    baselines.random: "random",
    accuracy_constrained: "constrained",
    baselines.pure: "pure",
    baselines.wald: "wald",
}
SHOWN = ("delta_pp", "q", "objectives", "threshold_pp")


def page_rules(metrics: Iterable[str]) -> list[dict[str, Any]]:
    """Rules that need nothing beyond these metrics, as ``rules.js`` takes them."""
    available = {"accuracy", *metrics}
    return [
        _facts(rule)
        for rule in rules().values()
        if kind_of(rule) is not None and available.issuperset(rule.needs)
    ]


def kind_of(rule: Rule) -> str | None:
    """Which of the page's ways to rank a rule is; None for one the page does not know."""
    function = rule.rank.func if isinstance(rule.rank, partial) else rule.rank
    return KINDS.get(function)


def _facts(rule: Rule) -> dict[str, Any]:
    fixed = rule.fixed.get("objectives") or [rule.fixed[m] for m in ("metric",) if m in rule.fixed]
    return {
        "name": rule.name,
        "summary": rule.summary,
        "kind": kind_of(rule),
        "objectives": list(fixed),
        "takes": [name for name in SHOWN if name in rule.defaults],
        "constrained": rule.constrained,
        "tiesByAccuracy": rule.ties_by_accuracy,
    }
