"""A choice as the log of registrations keeps it, and when two of them are the same."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from checkwise.selection.result import plain
from checkwise.selection.standing import Weights, check_weighting, decimal
from checkwise.study.cohort import REFERENCE
from checkwise.study.scopes import Scope, check_scope
from checkwise.study.setting import Setting

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
    setting: Setting,
    *,
    reference: Setting | None = None,
    scope: str = SCOPE,
    weights: Weights = "equal",
    worst_domain: bool = False,
) -> dict[str, Any]:
    """A choice as the log keeps it: every parameter, decimals as the fractions they are.

    The reference is ``source-acc`` unless given; of its parameters, those are kept that the rule
    does not have or has otherwise.
    """
    check_weighting(weights, worst_domain)
    against = Setting(REFERENCE) if reference is None else reference
    params = _params(setting)
    theirs = {k: v for k, v in _params(against).items() if k not in params or params[k] != v}
    return {
        "rule": setting.rule,
        "params": params,
        "weights": dict(weights) if isinstance(weights, Mapping) else str(weights),
        "worst_domain": worst_domain,
        "reference": against.rule,
        "reference_params": theirs,
        "scope": check_scope(scope),
    }


def with_shared(given: str | Setting, params: Mapping[str, Any]) -> Setting:
    """A row with those of the shared parameters that it takes."""
    setting = given if isinstance(given, Setting) else Setting(given)
    shared = {name: value for name, value in params.items() if name in setting.takes}
    return Setting(setting.rule, {**shared, **setting.params}, setting.label)


def same_choice(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two choices are one: the same rule and parameters, compared in the same way."""
    return all(one.get(part, usual) == other.get(part, usual) for part, usual in PARTS.items())


def _params(setting: Setting) -> dict[str, Any]:
    rule = setting.row.rule
    complete = dict(setting.params) if rule is None else rule.complete(setting.params)
    return {name: _kept(name, value) for name, value in sorted(complete.items())}


def _kept(name: str, value: Any) -> Any:
    if name in DECIMALS and value is not None:
        exact: Fraction = decimal(value, name)
        return str(exact)
    return plain(value)
