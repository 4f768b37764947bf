"""``checkwise rules``: what there is to choose from, and what can be compared with it."""

from __future__ import annotations

import inspect
from dataclasses import asdict
from typing import Any

from checkwise.cli import printing
from checkwise.cli.command import command
from checkwise.cli.options import json_option, load_plugins, plugin_option
from checkwise.cli.printing import print_json
from checkwise.plugins import offered
from checkwise.selection import Rule, plain, rules
from checkwise.study import methods


@command("rules")
@plugin_option
@json_option
def rules_command(plugin: tuple[str, ...], as_json: bool) -> None:
    """List every rule with what it needs, takes and promises, and the methods to compare with."""
    load_plugins(plugin)
    facts: list[dict[str, Any]] = [
        {
            "name": rule.name,
            "summary": rule.summary,
            "needs": [*(["accuracy"] if rule.needs_accuracy else []), *rule.needs],
            "parameters": _parameters(rule),
            "bound": rule.constrained,
            "prunable": rule.prunable,
        }
        for rule in rules().values()
    ]
    unused = {name: origin for name, origin in offered("rules").items() if name not in rules()}
    others: list[dict[str, Any]] = [
        {"name": method.name, "summary": method.summary, "needs": sorted(method.needs)}
        for method in methods().values()
        if not method.is_rule
    ]
    if as_json:
        more = [{"name": name, **asdict(origin)} for name, origin in unused.items()]
        print_json("rules", {"rules": facts, "methods": others, "offered": more})
        return
    alike: dict[str, list[str]] = {}
    for fact in facts:
        given = fact["parameters"].items()
        shown = " ".join(name if value is None else f"{name}={value}" for name, value in given)
        alike.setdefault(shown or "none", []).append(fact["name"])
    by_rule = [
        (one["name"], " ".join(one["needs"]), "yes" if one["bound"] else "no", one["summary"])
        for one in facts
    ]
    settings = [(" ".join(names), parameters) for parameters, names in alike.items()]
    beside = [(one["name"], " ".join(one["needs"]), one["summary"]) for one in others]
    named = ", ".join(f"{name} ({origin})" for name, origin in unused.items())
    heads = ("rule", "needs", "bound", "chooses")
    pairs = ("parameters of", "with defaults")
    last = ("method of compare", "needs", "deploys")
    printing.say(
        printing.table(heads, by_rule, left=heads, whole=heads[:3]),
        "",
        printing.table(pairs, settings, left=pairs),
        "bound: that of docs/sure.md applies where accuracy is the constraint.",
        "",
        *([f"Offered by installed packages, loaded when named: {named}.\n"] if named else []),
        printing.table(last, beside, left=last, whole=last[:2]),
        "Behind any rule in compare: +guard, or + and a calibrator (docs/baselines.md).",
    )


def _parameters(rule: Rule) -> dict[str, Any]:
    """Name → default, null for none, "required" where one has to be given."""
    found = {name: _default(value) for name, value in rule.defaults.items()}
    found |= {name: None for name in rule.optional if rule.defaults.get(name, 0) is None}
    return found | ({"ties": rule.ties({})} if rule.breaks_ties else {})


def _default(value: Any) -> Any:
    return "required" if value is inspect.Parameter.empty or value is None else plain(value)
