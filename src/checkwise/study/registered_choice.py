"""A choice as the log of registrations keeps it, and when two of them are the same."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from checkwise.selection.choice import Choice, plain
from checkwise.selection.constraint import read_delta
from checkwise.selection.default_rule import REFERENCE
from checkwise.selection.standing import Weights, decimal
from checkwise.study.compared_method import Method
from checkwise.study.methods import method
from checkwise.study.scopes import Scope, check_scope

DECIMALS = ("delta_pp", "threshold_pp")
SCOPE: Scope = "run"
# What makes two choices the same, with what an older log means where it has no entry.
PARTS: Mapping[str, Any] = {
    "rule": None,
    "params": None,
    "weights": "equal",
    "worst_domain": False,
    "reference": REFERENCE,
    "reference_params": {},
    "scope": SCOPE,
}


def choice_of(
    row: str | Method,
    *,
    reference: str | Method = REFERENCE,
    scope: str = SCOPE,
    weights: Weights = "equal",
    worst_domain: bool = False,
) -> dict[str, Any]:
    """A choice as the log keeps it: every parameter, decimals as the fractions they are.

    Of the reference's parameters, those are kept that the rule does not have or has otherwise.
    """
    Choice(weights=weights, worst_domain=worst_domain)  # refuses what goes with no choice
    chosen, against = method(row), method(reference)
    params = params_of(chosen)
    differing = {k: v for k, v in params_of(against).items() if k not in params or params[k] != v}
    return {
        "rule": chosen.name,
        "params": params,
        "weights": dict(weights) if isinstance(weights, Mapping) else str(weights),
        "worst_domain": worst_domain,
        "reference": against.name,
        "reference_params": differing,
        "scope": check_scope(scope),
    }


def same_choice(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two choices are one: the same rule and parameters, compared in the same way."""
    return all(
        _comparable(part, one.get(part, usual)) == _comparable(part, other.get(part, usual))
        for part, usual in PARTS.items()
    )


def _comparable(part: str, value: Any) -> Any:
    """The same for settings that give the same choice: 2 and 2.0, objectives in any order."""
    if part == "weights" and isinstance(value, Mapping):
        return {name: decimal(weight, "weights") for name, weight in value.items()}
    if isinstance(value, Mapping) and isinstance(value.get("objectives"), list | tuple):
        return {**value, "objectives": sorted(value["objectives"])}
    return value


def params_of(row: Method) -> dict[str, Any]:
    """Every parameter of a row as the log keeps it."""
    if row.rule is None:
        return {name: _as_logged(name, value) for name, value in sorted(row.params.items())}
    choice = row.choice()
    every = {**choice.completed, **choice.kind.as_dict()}
    logged = {name: _as_logged(name, value) for name, value in sorted(every.items())}
    if row.rule.optional and "delta" in every:
        delta = read_delta(every["delta"])
        logged["delta"] = f"{100 * delta.amount}%" if delta.relative else str(delta.amount)
    return logged


def _as_logged(name: str, value: Any) -> Any:
    if name in DECIMALS and value is not None:
        exact: Fraction = decimal(value, name)
        return str(exact)
    return plain(value)
