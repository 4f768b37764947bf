"""``checkwise rules``: what there is to choose from, and what can be compared with it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from checkwise.cli import printing
from checkwise.cli.command import command
from checkwise.cli.options import json_option, load_plugins, plugin_option
from checkwise.cli.printing import print_json
from checkwise.plugins import Origin, offered
from checkwise.selection import plain, rules
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
            "parameters": {
                **{
                    name: None if name in rule.optional and value is None else _default(value)
                    for name, value in rule.defaults.items()
                },
                **({"ties": rule.ties({})} if rule.breaks_ties else {}),
            },
            "bound": rule.constrained,
            "prunable": rule.prunable,
        }
        for rule in rules().values()
    ]
    unused = {n: origin for n, origin in offered("rules").items() if n not in rules()}
    others: list[dict[str, Any]] = [
        {"name": method.name, "summary": method.summary, "needs": sorted(method.needs)}
        for method in methods().values()
        if not method.is_rule
    ]
    if as_json:
        listed = {"rules": facts, "methods": others}
        listed["offered"] = [{"name": n, **asdict(origin)} for n, origin in unused.items()]
        print_json("rules", listed)
        return
    _show_rules(facts)
    _show_offered(unused)
    _show_methods(others)


def _show_rules(facts: Sequence[Mapping[str, Any]]) -> None:
    out = printing.console()
    rows = [
        (
            fact["name"],
            " ".join(fact["needs"]),
            "yes" if fact["bound"] else "no",
            fact["summary"],
        )
        for fact in facts
    ]
    header = ("rule", "needs", "bound", "chooses")
    out.print(printing.table(header, rows, left=header, whole=header[:3]))
    out.print()
    alike: dict[str, list[str]] = {}
    for fact in facts:
        parameters = " ".join(
            name if value is None else f"{name}={value}"
            for name, value in fact["parameters"].items()
        )
        alike.setdefault(parameters, []).append(fact["name"])
    lines = [(" ".join(names), parameters or "none") for parameters, names in alike.items()]
    heads = ("parameters of", "with defaults")
    out.print(printing.table(heads, lines, left=heads))
    out.print("bound: that of docs/guarantees.md applies where accuracy is the constraint.")
    out.print()


def _show_offered(unused: Mapping[str, Origin]) -> None:
    """Names that installed packages offer: nothing is imported to list them."""
    if unused:
        named = ", ".join(f"{name} ({origin})" for name, origin in unused.items())
        printing.console().print(f"Offered by installed packages, loaded when named: {named}.\n")


def _show_methods(others: Sequence[Mapping[str, Any]]) -> None:
    out = printing.console()
    lines = [(other["name"], " ".join(other["needs"]), other["summary"]) for other in others]
    heads = ("method of compare", "needs", "deploys")
    out.print(printing.table(heads, lines, left=heads, whole=heads[:2]))
    out.print("Behind any rule in compare: +guard, or + and a calibrator (docs/baselines.md).")


def _default(value: Any) -> Any:
    return "required" if value is inspect.Parameter.empty or value is None else plain(value)
