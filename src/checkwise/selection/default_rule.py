"""The rule where the user names none: the best one that the run's metrics allow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from checkwise.errors import MissingMetricError
from checkwise.records import Trajectory
from checkwise.selection.rules import Rule, get_rule, rules
from checkwise.selection.standing import Weights, check_weighting

DEFAULT_RULE = "ac-nc"
# What people choose by today, and what rules are compared with.
REFERENCE = "source-acc"
# Best first; the last needs nothing but accuracy.
PREFERRED = (DEFAULT_RULE, "ac-nll", "ac-cwece", "ac-ece", REFERENCE)
REMEDY = (
    "save the logits of every checkpoint as step-000100/<domain>.npz and select from that folder"
)


@dataclass(frozen=True)
class RuleWithReason:
    """A rule, and why it stands in for ``DEFAULT_RULE`` ("" where it does not)."""

    rule: Rule
    reason: str = ""


def default_rule(
    trajectory: Trajectory,
    params: Mapping[str, Any],
    *,
    weights: Weights = "equal",
    worst_domain: bool = False,
) -> RuleWithReason:
    """The first of ``PREFERRED`` whose metrics the run carries in the form that is needed.

    Raises:
        MissingMetricError: a parameter was given that only a rule with more metrics takes.
    """
    pooled = set(unsplit(trajectory, weights, worst_domain))
    usable = [name for name in trajectory.metrics if name not in pooled]
    best = get_rule(next(name for name in PREFERRED if name in usable_rules(usable)))
    wanted = get_rule(DEFAULT_RULE)
    if best is wanted:
        return RuleWithReason(best)
    absent = [name for name in wanted.needs if name not in usable]
    reason = _reason(absent, usable, pooled)
    for name in params:
        if name in wanted.defaults and name not in best.defaults:
            takers = [r for r in usable_rules(usable) if name in get_rule(r).defaults]
            raise MissingMetricError(
                f"Expected metrics for a rule that takes `{name}`, but {reason}, and {best.name} "
                f"takes no `{name}`: leave it out, or name a rule"
                + (f" that takes it ({', '.join(takers)})." if takers else ".")
            )
    return RuleWithReason(best, reason)


def unsplit(trajectory: Trajectory, weights: Weights, worst_domain: bool) -> tuple[str, ...]:
    """Metrics that were logged only as an equal mean, where the weighting needs every domain."""
    check_weighting(weights, worst_domain)
    return tuple(trajectory.pooled) if weights != "equal" or worst_domain else ()


def usable_rules(metrics: Iterable[str]) -> list[str]:
    """Rules that need nothing beyond accuracy and these metrics."""
    available = set(metrics)
    return [
        name for name, rule in rules().items() if name != "ac" and available.issuperset(rule.needs)
    ]


def _reason(absent: list[str], usable: list[str], pooled: set[str]) -> str:
    listed = " and ".join(absent)
    if pooled.intersection(absent):
        verb = "is" if len(absent) == 1 else "are"
        return (
            f"{listed} {verb} not logged for every domain; {DEFAULT_RULE} needs {_pronoun(absent)}"
        )
    if usable == ["accuracy"]:
        return f"there is accuracy alone; {DEFAULT_RULE} needs {listed} too"
    return f"there is no {' and no '.join(absent)}; {DEFAULT_RULE} needs {_pronoun(absent)}"


def _pronoun(names: list[str]) -> str:
    return "it" if len(names) == 1 else "them"
