"""``Choice``: how to choose, in one frozen argument that everything which chooses shares."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from math import inf, isinf
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from checkwise.errors import InputError
from checkwise.selection.constraint import ACCURACY, ToleranceKind
from checkwise.selection.directions import Directions, check_directions
from checkwise.selection.rulebook import Rule, check_objectives, get_rule
from checkwise.selection.standing import Weights, check_weights
from checkwise.words import printable, shown


@dataclass(frozen=True)
class Choice:
    """A rule, its parameters, and what holds for every rule.

    Args:
        rule: a name from :func:`rules`; None for the best rule that the data allow.
        params: parameters of the rule, such as ``delta_pp`` and ``q``, and ``ties``: which of
            exactly tied checkpoints is taken, the "earliest", the "latest", or that of the higher
            "accuracy" (or of the better constraint), then the earlier.
        weights: how much each domain counts: "equal", "sample", or a weight per domain.
        worst_domain: judge every checkpoint by its worst domain instead of the mean; a minimum
            has no weights, so ``weights`` stays "equal".
        directions: whether "higher" or "lower" is better, for scores whose names do not say it.
        guard: where the best checkpoint has 5 validation errors or fewer, validation cannot rank
            probabilities: take the earliest checkpoint within 0.5 points of the best accuracy,
            whatever ``delta_pp`` is. Rules that look at accuracy and time alone, and those with
            another constraint, are left alone; so are runs whose number of errors is not known.
        tolerance: which checkpoints are near the best: "fixed", the default (at most δ below the
            best measured accuracy), or by what every validation example said: "paired" (not shown
            to be worse by more than δ).
        alpha: level of "paired"; 0.05 if not given.

    ``completed`` has every parameter of the rule, where one is named.

    Example:
        >>> Choice.of("ac-nc", delta_pp=1, guard=False).as_dict()
        {'rule': 'ac-nc', 'guard': False, 'delta_pp': 1}
    """

    rule: str | Rule | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    weights: Weights = "equal"
    worst_domain: bool = False
    directions: Directions = field(default_factory=dict)
    guard: bool = True
    tolerance: str | None = None
    alpha: float | None = None
    completed: Mapping[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        put = partial(object.__setattr__, self)
        put("params", MappingProxyType(dict(self.params)))
        put("directions", MappingProxyType(check_directions(self.directions)))
        if self.params.get("objectives") is not None:
            check_objectives(self.params["objectives"])
        for name in ("worst_domain", "guard"):
            if not isinstance(getattr(self, name), bool):
                got = shown(getattr(self, name))
                raise InputError(f"Expected {name} to be true or false, but got {got}.")
        check_weights(self.weights)
        if self.worst_domain and not (self.weights == "equal" and self.kind.fixed):
            got = shown(self.weights) if self.kind.fixed else f"tolerance {self.kind.name!r}"
            raise InputError(
                f"Expected equal weights and tolerance 'fixed' with worst_domain, but got {got}: "
                "it stands for means; leave out one of the two.",
                code="unsupported",
            )
        _ = self.kind  # refuses what is no tolerance
        completed = {} if self.rule is None else self.complete(self.named)
        put("completed", MappingProxyType(completed))

    def __hash__(self) -> int:
        rule = self.rule.name if isinstance(self.rule, Rule) else self.rule
        return hash((rule, frozenset(self.params), self.guard, self.tolerance, self.alpha))

    def __reduce__(self) -> tuple[Any, ...]:
        settings = {name: getattr(self, name) for name in SETTINGS}
        settings["directions"] = dict(self.directions)
        return partial(Choice, self.rule, dict(self.params), **settings), ()

    @classmethod
    def of(cls, rule: str | Rule | Choice | None = None, /, **settings: Any) -> Choice:
        """The choice that ``select(run, rule, **settings)`` makes; one that is given is kept."""
        if isinstance(rule, Choice):
            if settings:
                raise InputError(
                    f"Expected a Choice alone, but got {next(iter(settings))} beside it: put it "
                    "into the choice.",
                    code="ambiguous",
                )
            return rule
        named = {name: settings.pop(name) for name in SETTINGS if name in settings}
        return cls(rule, settings, **named)

    @property
    def named(self) -> Rule:
        """The rule itself, where one is named."""
        assert self.rule is not None
        return get_rule(self.rule)

    @cached_property
    def kind(self) -> ToleranceKind:
        """How it is decided which checkpoints are near the best."""
        return ToleranceKind.of(self.tolerance, self.alpha)

    def complete(self, rule: Rule, further: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Every parameter of a rule, and ``further`` ones; refuses what does not go with it."""
        complete = rule.complete({**self.params, **(further or {})})
        by_accuracy = rule.takes_tolerance and rule.constraint(complete) == ACCURACY
        if not (self.kind.fixed or by_accuracy):
            raise InputError(
                f"Expected a rule with a tolerance of accuracy, such as ac-nc, for "
                f"{self.kind.name!r}, which compares correct answers, but got {rule.name}: use "
                'tolerance "fixed".',
                code="unsupported",
            )
        return complete

    @property
    def told(self) -> dict[str, Any]:
        """The settings that are not the usual ones, and the parameters, side by side."""
        settings = {name: getattr(self, name) for name in SETTINGS}
        return {n: value for n, value in settings.items() if value != USUAL[n]} | {**self.params}

    def as_dict(self) -> dict[str, Any]:
        """The rule and what is not usual, as JSON."""
        rule = None if self.rule is None else self.named.name
        found: dict[str, Any] = plain({"rule": rule, **self.told})
        return found

    @classmethod
    def from_dict(cls, content: object) -> Choice:
        """The choice of an ``as_dict`` that came from a file; refuses what is none.

        Example:
            >>> Choice.from_dict({"rule": "ac-nc", "guard": False, "q": "inf"}).completed["q"]
            inf
        """
        if not isinstance(content, dict) or "rule" not in content:
            raise InputError(
                f"Expected a rule with its settings, but got {shown(content)}.", code="damaged"
            )
        for name, value in content.items():
            inner = value.values() if isinstance(value, dict) else value
            parts = inner if isinstance(value, dict | list) else ()
            if (
                not name.isidentifier()
                or name == "trajectory"  # an argument of `select`, and no setting
                or not isinstance(value, _KINDS.get(name, str | int | float | list))
                or not all(isinstance(part, str | int | float) for part in parts)
            ):
                raise InputError(
                    f"Expected settings of `select`, but got {shown(value)} as {shown(name)}.",
                    code="damaged",
                )
        settings = {**content, **({"q": inf} if content.get("q") == "inf" else {})}
        return cls.of(settings.pop("rule"), **settings)


def plain(value: Any) -> Any:
    """A setting as JSON."""
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, tuple | list):
        return [plain(inner) for inner in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and isinf(value):
        return "inf"
    return value if value is None or isinstance(value, bool | int | float) else str(value)


SETTINGS: Final = tuple(one.name for one in fields(Choice) if one.init)[2:]
USUAL: Final = {name: getattr(Choice(), name) for name in SETTINGS}
_KINDS: Final[Mapping[str, Any]] = {
    "rule": str | None,
    "weights": str | dict,
    "worst_domain": bool,
    "directions": dict,
    "guard": bool,
    "tolerance": str,
    "alpha": int | float,
}


def not_usual(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are no defaults, and the tolerance, as JSON has them."""
    try:
        defaults = dict(get_rule(str(settings["rule"])).defaults)
    except InputError:  # a rule of somebody else's
        defaults = {}
    usual = plain({**defaults, **USUAL, "tolerance": "fixed"})
    return {
        name: value
        for name, value in plain(dict(settings)).items()
        if name != "rule"
        and value is not None
        and (name in ("delta_pp", "delta") or name not in usual or usual[name] != value)
    }


def in_words(settings: Mapping[str, Any]) -> str:
    """``delta_pp 1, weights sample``, without what is usual."""
    told = {
        name: value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        for name, value in not_usual(settings).items()
    }
    return ", ".join(printable(f"{name} {value}") for name, value in told.items())
