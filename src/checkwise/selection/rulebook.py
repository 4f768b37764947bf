"""The rules by name: what each needs, promises and takes, and how to add your own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, get_args

import numpy as np

from checkwise.errors import CheckwiseError, InputError
from checkwise.metrics import is_metric
from checkwise.plugins import Origin, register_offered
from checkwise.selection.columns import Columns
from checkwise.selection.constrained import accuracy_constrained
from checkwise.selection.constraint import (
    ACCURACY,
    CONSTRAINT_PARAMS,
    TOLERANCES,
    Tolerance,
    check_constraint,
    tolerance,
    tolerance_of,
)
from checkwise.selection.ranking import Ranking, Ties
from checkwise.selection.standing import BoolArray
from checkwise.words import listed, points, shown

Rank = Callable[..., Ranking]
TIES = "ties"


@dataclass(frozen=True)
class Rule:
    """A way to choose one checkpoint from source-validation columns.

    Args:
        name: what users type.
        summary: one line for ``checkwise rules``.
        rank: ``rank(table, **params)`` scores every checkpoint of one run, or of a stack of runs.
            What a ``partial`` fixes makes this rule of a family (its objectives, its metric).
        needs: metrics the run has to carry besides accuracy.
        constrained: the choice is always within ``delta_pp`` of the best accuracy, so the
            source-accuracy bound applies.
        prunable: checkpoints that fall below the tolerance can be deleted for good, because no
            later record can make them eligible or change the choice among the rest.
        stackable: ``rank`` accepts a stack of runs.
        leaves_ties: several checkpoints may have the best score, so ``ties`` can be set; else it
            names one and may say nothing of the order of the others.
        needs_accuracy: it looks at accuracy, unless another constraint is set, and breaks ties by
            it.
        check: refuses values of its parameters, before there is a run.
        origin: the installed package that offers it, if one does.
    """

    name: str
    summary: str
    rank: Rank
    needs: tuple[str, ...] = ()
    constrained: bool = False
    prunable: bool = False
    stackable: bool = True
    leaves_ties: bool = True
    needs_accuracy: bool = True
    check: Callable[[Mapping[str, Any]], object] | None = None
    origin: Origin | None = None

    @property
    def fixed(self) -> Mapping[str, Any]:
        """Parameters that make this rule of a family."""
        return self.rank.keywords if isinstance(self.rank, partial) else {}

    @property
    def optional(self) -> tuple[str, ...]:
        """The constraint's parameters, where it takes any constraint; listed only where set."""
        function = self.rank.func if isinstance(self.rank, partial) else self.rank
        return CONSTRAINT_PARAMS if function is accuracy_constrained else ()

    @cached_property
    def defaults(self) -> Mapping[str, Any]:
        """Parameters a caller may set, with their defaults."""
        return {
            p.name: p.default
            for p in inspect.signature(self.rank).parameters.values()
            if p.kind is p.KEYWORD_ONLY and p.name not in self.fixed
        }

    @property
    def takes_tolerance(self) -> bool:
        """Whether a tolerance decides what it may choose."""
        return "delta_pp" in self.defaults

    def complete(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """All parameters with defaults filled in; refuses ones the rule does not take."""
        given = {
            name: value
            for name, value in params.items()
            if value is not None or name not in (*self.optional, TIES)
        }
        for name in given:
            if not self.accepts(name):
                takes = ", ".join([*self.defaults, *[TIES] * self.breaks_ties]) or "none"
                raise InputError(
                    f"Rule {self.name} has no parameter {name!r}; it takes: {takes}.",
                    code="unknown",
                )
        defaults = {n: value for n, value in self.defaults.items() if n not in self.optional}
        if self.optional:
            check_constraint(given)
            if "delta" in given:
                defaults.pop("delta_pp", None)
        self.ties(given)  # refuses other words
        complete = {**defaults, **given}
        for name, value in complete.items():
            if value is inspect.Parameter.empty:
                raise InputError(f"Rule {self.name} needs the parameter {name!r}.", code="missing")
        if "delta_pp" in complete:
            tolerance(complete["delta_pp"])  # refuses what is not a tolerance
        if self.check is not None:
            self.check({**self.fixed, **complete})
        return complete

    def accepts(self, name: str) -> bool:
        """Whether a parameter of that name can be set."""
        return name in self.defaults or (name == TIES and self.breaks_ties)

    @property
    def breaks_ties(self) -> bool:
        """Whether ``ties`` says which of several best checkpoints it takes."""
        return self.leaves_ties and TIES not in self.defaults

    def ties(self, params: Mapping[str, Any]) -> Ties:
        """How the best of equal scores is found, under complete parameters."""
        if not (self.breaks_ties and TIES in params):
            return "accuracy" if self.needs_accuracy or not self.leaves_ties else "earliest"
        asked = params[TIES]
        if asked not in get_args(Ties):
            known = listed(get_args(Ties), "or")
            raise InputError(f"Expected ties to be {known}, but got {shown(asked)}.")
        ties: Ties = asked
        return ties

    def constraint(self, params: Mapping[str, Any]) -> str:
        """The score by which a checkpoint is near-best or not, under complete parameters."""
        return str(params["constraint"]) if self.optional and "constraint" in params else ACCURACY

    def looks_at(self, params: Mapping[str, Any]) -> tuple[str, ...]:
        """The scores that it reads of a run, accuracy among them where it needs that."""
        objectives = params.get("objectives", ())
        constraint = self.constraint(params)
        by_accuracy = self.needs_accuracy or params.get(TIES) == ACCURACY
        constrained = (constraint,) if by_accuracy or constraint != ACCURACY else ()
        named = () if isinstance(objectives, str) else tuple(objectives)
        return tuple(dict.fromkeys((*constrained, *self.needs, *named)))

    def ranking(self, table: Columns, params: Mapping[str, Any]) -> Ranking:
        """``rank`` under complete parameters; ties are broken afterwards."""
        own = {n: value for n, value in params.items() if n != TIES or not self.breaks_ties}
        return self.rank(table, **own)

    def asked(self, params: Mapping[str, Any]) -> Tolerance | None:
        """The tolerance of a rule that takes any constraint; None for others."""
        delta = params.get("delta_pp", 0), params.get("delta")
        return tolerance_of(*delta) if self.optional else None

    def near_best(self, table: Columns, params: Mapping[str, Any]) -> BoolArray:
        """What it may choose, with checkpoints that ``pareto`` leaves out."""
        asked = self.asked(params)
        if asked is None:
            return self.ranking(table, params).eligible
        return table.near_best(self.constraint(params), asked)


def check_objectives(objectives: Any) -> Sequence[str]:
    """The objectives themselves, if they are a list that names each metric once."""
    names = objectives if isinstance(objectives, Sequence) else ()
    if not names or isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise InputError(
            f"Expected objectives as a list of metric names, but got {shown(objectives)}: "
            'for example ["nll", "cwece"].'
        )
    if len(set(names)) < len(names):
        raise InputError(f"Expected each objective once, but got {', '.join(names)}.")
    return names


_RULES: dict[str, Rule] = {}


def _known() -> dict[str, Rule]:
    """Every rule so far; those that come with checkwise register themselves on import."""
    import checkwise.selection.built_in_rules  # noqa: F401

    return _RULES


def rules() -> Mapping[str, Rule]:
    """Every registered rule by name; a rule of another package is listed once it was used.

    Example:
        >>> rules()["ac-nc"].needs
        ('nll', 'cwece')
    """
    return MappingProxyType(_known())


def get_rule(name: str | Rule) -> Rule:
    """A rule by name, from an installed package if checkwise has none of that name."""
    if isinstance(name, Rule):
        return name
    if not isinstance(name, str) or not is_rule(name):
        import difflib  # slow to import

        alike = difflib.get_close_matches(str(name), list(_known()), n=1)
        meant = f": did you mean {alike[0]}?" if alike else "."
        plain, _, kind = str(name).rpartition("-")
        if plain in _known() and kind in TOLERANCES:  # as `study compare` names a row
            meant = f": use the rule {plain} with --param tolerance={kind}."
        raise InputError(
            f"Expected one of the rules {', '.join(_known())}, but got {str(name)!r}{meant}",
            code="unknown",
        )
    return _known()[name]


def is_rule(name: str) -> bool:
    """Whether a rule of that name is registered, or an installed package offers it."""
    return name in _known() or register_offered("rules", name, _known())


def find_metrics(rule: Rule, params: Mapping[str, Any]) -> None:
    """Load the metrics that a rule looks at, which an installed package may offer."""
    for name in rule.looks_at(params):
        is_metric(name)


def register(rule: Rule) -> Rule:
    """Add a rule under a new name."""
    if rule.name in _known():
        raise InputError(
            f"A rule named {rule.name!r} exists already: choose another name.", code="exists"
        )
    _known()[rule.name] = rule
    return rule


def unregister(name: str) -> None:
    """Forget a rule (for tests and notebooks that define one again)."""
    _known().pop(name, None)


def rule(
    name: str,
    *,
    needs: tuple[str, ...] = (),
    constrained: bool = False,
    prunable: bool = False,
) -> Callable[[Callable[..., int]], Rule]:
    """Register a function ``choose(table, **params) -> step`` as a rule.

    ``table`` maps documented column names to arrays over the checkpoints of one run (see
    :class:`Columns`); the function returns one of ``table["step"]``.

    Example:
        >>> @rule("latest", constrained=True)
        ... def latest(table, *, delta_pp=0.5):
        ...     "The latest feasible checkpoint."
        ...     return table["step"][table.within(delta_pp)][-1]
        >>> latest.defaults
        {'delta_pp': 0.5}
        >>> unregister("latest")
    """

    def add(choose: Callable[..., int]) -> Rule:
        if constrained and "delta_pp" not in inspect.signature(choose).parameters:
            raise InputError(
                f"Rule {name!r} says it is constrained, so it needs a parameter `delta_pp`."
            )
        return register(
            Rule(
                name,
                (inspect.getdoc(choose) or "A user's rule.").splitlines()[0],
                rank=_ranks(choose, name, constrained=constrained),
                needs=needs,
                constrained=constrained,
                prunable=prunable,
                stackable=False,
                leaves_ties=False,
                needs_accuracy=constrained,
            )
        )

    return add


def _ranks(choose: Callable[..., int], name: str, *, constrained: bool) -> Rank:
    """A ranking that puts the chosen step first."""

    def rank(table: Columns, **params: Any) -> Ranking:
        try:
            step = choose(table, **params)
        except CheckwiseError:
            raise
        except Exception as error:
            settings = ", ".join(f"{key} = {value!r}" for key, value in params.items())
            raise InputError(
                f"Expected a step from rule {name!r}, but it failed with {type(error).__name__}: "
                f"{error} ({settings or 'no parameters'}): mend the rule, or change its parameters."
            ) from error
        at = table["step"] == step
        if not np.any(at) or table["diverged"][at].any():
            raise InputError(
                f"Expected rule {name!r} to return a step of the run that did not diverge, but got "
                f"{step!r}; the steps are {table['step'][~table['diverged']].tolist()}."
            )
        eligible = table.within(params["delta_pp"]) if constrained else ~table["diverged"]
        if not eligible[at].all():
            raise InputError(
                f"Rule {name!r} says it is constrained, but chose step {step}, which is not "
                f"within {points(params['delta_pp'])} of the best accuracy: choose among "
                "`table.within(delta_pp)`."
            )
        return Ranking(np.where(at, 0.0, 1.0), eligible)

    # The signature tells which parameters exist; the leading table is not one of them.
    parameters = [
        p.replace(kind=p.KEYWORD_ONLY) if p.kind is p.POSITIONAL_OR_KEYWORD and i else p
        for i, p in enumerate(inspect.signature(choose).parameters.values())
    ]
    rank.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return rank
