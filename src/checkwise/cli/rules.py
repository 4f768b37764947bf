"""``checkwise rules``: what there is to choose from."""

from __future__ import annotations

import inspect
import json
from typing import Any

from checkwise.cli import show
from checkwise.cli.options import AsJson
from checkwise.cli.plugins import Plugins, load_plugins
from checkwise.selection import rules
from checkwise.selection.result import plain


def command(plugin: Plugins = None, as_json: AsJson = False) -> None:
    """List every rule with what it needs, takes and promises."""
    load_plugins(plugin)
    facts: list[dict[str, Any]] = [
        {
            "name": rule.name,
            "summary": rule.summary,
            "needs": ["accuracy", *rule.needs],
            "parameters": {name: _default(value) for name, value in rule.defaults.items()},
            "bound": rule.constrained,
            "prunable": rule.prunable,
        }
        for rule in rules().values()
    ]
    if as_json:
        print(json.dumps({"schema": 1, "rules": facts}, allow_nan=False))
        return
    rows = [
        (
            fact["name"],
            " ".join(fact["needs"]),
            " ".join(f"{name}={value}" for name, value in fact["parameters"].items()) or "-",
            "yes" if fact["bound"] else "no",
            fact["summary"],
        )
        for fact in facts
    ]
    header = ("rule", "needs", "parameters", "accuracy bound", "chooses")
    show.console().print(show.table(header, rows, left=header))


def _default(value: Any) -> Any:
    return "required" if value is inspect.Parameter.empty or value is None else plain(value)
