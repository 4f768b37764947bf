"""The rule where the user names none: the best one that the run's metrics allow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from checkwise.errors import InputError, MissingMetricError
from checkwise.records import Trajectory, headline
from checkwise.selection.built_in_rules import pure_rule
from checkwise.selection.choice import Choice
from checkwise.selection.constraint import ACCURACY
from checkwise.selection.rulebook import Rule, get_rule, rules
from checkwise.words import listed

DEFAULT_RULE = "ac-nc"
"""The rule that is used where none is named and the data allow it."""
# What people choose by today, and what rules are compared with.
REFERENCE = "source-acc"
# Best first; the last needs nothing but accuracy.
PREFERRED = (DEFAULT_RULE, "ac-nll", "ac-cwece", "ac-ece", REFERENCE)
# For scores that the user names; its objectives where only the constraint is named, best first.
NAMED_SCORES = "ac"
USUAL_OBJECTIVES = (("nll", "cwece"), ("ece",), ("loss",))
# The tolerance of a score that stands in for accuracy.
DELTA = "1%"
NO_ACCURACY = "there is no accuracy"
OBJECTIVES_NAMED = "objectives were named"


@dataclass(frozen=True)
class RuleWithReason:
    """A rule, why it stands in for ``DEFAULT_RULE`` ("" where it does not), and what it is given.

    ``params`` has the parameters that the user left open.
    """

    rule: Rule
    reason: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)


def rule_of(trajectory: Trajectory, choice: Choice) -> RuleWithReason:
    """The rule that a choice names, or the default one; with every parameter."""
    if choice.rule is not None:
        return RuleWithReason(choice.named, params=dict(choice.completed))
    found = _default_rule(trajectory, choice)
    return replace(found, params=choice.complete(found.rule, found.params))


def _default_rule(trajectory: Trajectory, choice: Choice) -> RuleWithReason:
    """The rule ``ac`` where scores are named, else the first of ``PREFERRED`` that the run allows.

    A parameter that only a rule with more metrics takes is refused.
    """
    params, pooled = choice.params, set(unsplit(trajectory, choice))
    usable = [name for name in trajectory.metrics if name not in pooled]
    if params.get("objectives") is not None or params.get("constraint") is not None:
        return _named_scores(usable, params)
    wanted = get_rule(DEFAULT_RULE)
    further: dict[str, Any] = {}
    if ACCURACY not in usable:
        best, further = _without_accuracy(usable)
        further = {name: value for name, value in further.items() if name not in params}
        reason = NO_ACCURACY
    else:
        best = get_rule(next(name for name in PREFERRED if name in usable_rules(usable)))
        if best is wanted:
            return RuleWithReason(best)
        reason = _reason([name for name in wanted.needs if name not in usable], usable, pooled)
    for name in params:
        if wanted.accepts(name) and not best.accepts(name):
            takers = [r for r in usable_rules(usable) if get_rule(r).accepts(name)]
            other = "rule" if ACCURACY in usable else "constraint"
            other = f"rule that takes it ({', '.join(takers)})" if takers else other
            raise MissingMetricError(
                f"Expected metrics for a rule that takes `{name}`, but {reason}, and {best.name} "
                f"takes no `{name}`: leave it out, or name a {other}."
            )
    return RuleWithReason(best, reason, further)


def unsplit(trajectory: Trajectory, choice: Choice) -> tuple[str, ...]:
    """Metrics that were logged only as an equal mean, where the weighting needs every domain."""
    return tuple(trajectory.pooled) if choice.weights != "equal" or choice.worst_domain else ()


def usable_rules(metrics: Iterable[str]) -> list[str]:
    """Rules that need nothing beyond these metrics, in the order in which they are listed."""
    available = set(metrics)
    return [
        name
        for name, rule in rules().items()
        if name != NAMED_SCORES and available.issuperset(rule.looks_at({}))
    ]


def _named_scores(usable: list[str], params: Mapping[str, Any]) -> RuleWithReason:
    """``ac`` with the objectives that were named; without any, those of the default rule."""
    rule = get_rule(NAMED_SCORES)
    if params.get("objectives") is not None:
        return RuleWithReason(rule, OBJECTIVES_NAMED)
    constraint = params["constraint"]
    for objectives in USUAL_OBJECTIVES:
        there = tuple(name for name in objectives if name in usable and name != constraint)
        if there:
            used = f"{listed(there)} {'is' if len(there) == 1 else 'are'} used"
            reason = f"a constraint was named without objectives; {used}"
            return RuleWithReason(rule, reason, {"objectives": there})
    others = [name for name in usable if name != constraint]
    example = f", as in --objectives {others[0]}" if others else ""
    raise InputError(
        f"Expected what to choose by among the checkpoints near the best {constraint}, but got no "
        f"objectives, and this run has none of the usual ones (nll, cwece, ece): it carries "
        f"{', '.join(usable)}; name some{example}.",
        code="missing",
    )


def _without_accuracy(usable: list[str]) -> tuple[Rule, dict[str, Any]]:
    """``ac`` on the score that stands in for accuracy, with the loss as objective.

    With a loss alone, or a score alone, the best of it.
    """
    scores = headline(usable)
    loss = next((name for name in ("nll", "loss") if name in usable), None)
    if len(scores) == 1 and loss:
        params = {"constraint": scores[0], "delta": DELTA, "objectives": (loss,)}
        return get_rule(NAMED_SCORES), params
    alone = scores or [name for name in [loss] if name]
    if len(alone) == 1:
        name = alone[0]
        known = rules().get(f"pure-{name}")
        return known or replace(pure_rule(name), summary=f"best {name} over the whole run"), {}
    constraint, *others = scores or usable or ["f1"]
    got = f"has {listed(scores)}" if scores else f"carries {', '.join(usable) or 'neither'}"
    raise InputError(
        f"Expected accuracy, one score in its place, or nll to choose by, but this run {got}: say "
        f"which score has to be near its best and what to choose by then, as in --constraint "
        f"{constraint} --delta {DELTA} --objectives {loss or (others or ['nll'])[0]}.",
        code="ambiguous" if scores else "missing",
    )


def _reason(absent: list[str], usable: list[str], pooled: set[str]) -> str:
    them = "it" if len(absent) == 1 else "them"
    if pooled.intersection(absent):
        verb = "is" if len(absent) == 1 else "are"
        return (
            f"{' and '.join(absent)} {verb} not logged for every domain; {DEFAULT_RULE} needs "
            f"{them}"
        )
    if usable == [ACCURACY]:
        return f"there is accuracy alone; {DEFAULT_RULE} needs {' and '.join(absent)} too"
    return f"there is no {' and no '.join(absent)}; {DEFAULT_RULE} needs {them}"
