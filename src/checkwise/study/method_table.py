"""Everything that can be a row of a comparison: rules, and methods that do more than choose.

A method either has a ``rule``, which chooses a checkpoint from validation results, or a
``recipe``, which makes a new model that is kept beside the runs. A new method is a file that makes
it, one line in ``_BUILT_IN`` and a test. ``+<calibrator>`` behind any rule, such as ``+ts``,
calibrates the chosen model, whatever the number of validation errors: it shows what the calibrator
does. ``+guard`` takes the earliest feasible checkpoint where validation is saturated.
``@groups`` behind a rule, as in ``source-acc@groups+ts``, chooses and calibrates by the second of
two validation sets, whole groups; ``@examples`` by the first.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from checkwise.calibrators import calibrators
from checkwise.errors import InputError
from checkwise.selection import (
    FEW_ERRORS,
    SAFER,
    TOLERANCE_OPTIONS,
    TOLERANCES,
    Choice,
    Rule,
    get_rule,
    is_rule,
    plain,
    rules,
)
from checkwise.store import Validation as Split
from checkwise.store import check_validation
from checkwise.study import protocols
from checkwise.study.baselines import ACROSS_DOMAINS, DEPLOYED, ENSEMBLES, MEANS, Needs, Recipe
from checkwise.study.lodo import Scope
from checkwise.study.protocols import Validation
from checkwise.words import listed


@dataclass(frozen=True)
class Method:
    """One row of a comparison: how its outcomes come about, with the parameters that are set."""

    name: str  # what users type
    summary: str  # one line
    # what has to be there: the journals of source validation (``logs``), saved outputs
    # (``logits``), saved checkpoints (``weights``), the examples (``data``), or runs that were
    # trained for it (``training``)
    needs: Needs
    # what chooses a saved step; None where results are read that a recipe made
    rule: Rule | None = None
    recipe: Recipe | None = None  # how its models are made; None where a rule chooses
    validation: Validation = "source"  # what the rule looks at
    # which of two validation sets that is, of runs that have both; None for their own
    split: Split | None = None
    calibrator: str | None = None  # what calibrates the chosen model, if anything
    # whether the earliest feasible checkpoint replaces the choice where validation has too few
    # errors; exploratory
    guard: bool = False
    oracle: bool = False  # whether it is fitted on the target itself: a limit, not a method
    scope: Scope = "run"  # whether every run counts by itself or hyperparameters are chosen too
    expected: bool = False  # whether it is a mean over the feasible set instead of one checkpoint
    # the parameters that are set; the rest have their defaults
    params: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""  # what tables call it; by default its name and parameters

    @property
    def label(self) -> str:
        """What tables call it."""
        if self.title:
            return self.title
        params = ", ".join(f"{name}={plain(value)}" for name, value in self.params.items())
        return f"{self.name}({params})" if params else self.name

    @property
    def identity(self) -> str:
        """What tells it from others whatever tables call it: its name and parameters."""
        return f"{self.name} {sorted(self.params.items())!r}"

    @property
    def is_rule(self) -> bool:
        """Whether it just picks a step of every run from that run's source validation."""
        alone = self.validation == "source" and self.split is None and self.scope == "run"
        alone = alone and not self.guard
        return self.rule is not None and alone and not self.expected and self.calibrator is None

    @property
    def takes(self) -> Mapping[str, Any]:
        """Parameters that may be set, with their defaults; results of a recipe have none left."""
        return {} if self.rule is None else self.rule.defaults

    @property
    def needs_text(self) -> str:
        """What has to be there, in words."""
        needs = ", ".join(sorted(self.needs))
        exploratory = " (exploratory)" if self.guard else ""
        return (f"{needs}, target labels (not deployable)" if self.oracle else needs) + exploratory

    def validated_by(self, split: Split | None) -> Method:
        """The same by one of two validation sets, unless it names one already."""
        if split is None or self.split is not None:
            return self
        if self.rule is None or self.validation == "lodo":
            raise InputError(
                f"Expected a rule that chooses by the validation of each run for @{split}, but "
                f"{self.name} does not: leave out @{split}.",
                code="unsupported",
            )
        base, plus, suffix = self.name.partition("+")
        return replace(self, name=f"{base}@{split}{plus}{suffix}", split=split)

    def called(self, title: str) -> Method:
        """The same under another title."""
        return replace(self, title=title)

    def taking(self, shared: Mapping[str, Any]) -> Method:
        """With those of the shared parameters that it takes and does not set, under its label."""
        taken = {name: value for name, value in shared.items() if self.can_take(name)}
        return replace(self, params={**taken, **self.params}, title=self.label)

    def can_take(self, name: str) -> bool:
        """Whether a parameter may be set: the rule names it, or accepts any."""
        if self.rule is not None and name in TOLERANCE_OPTIONS:
            return self.rule.takes_tolerance and self.validation == "source"
        return self.rule is not None and self.rule.accepts(name)

    def choice(self, **domains: Any) -> Choice:
        """How it chooses, where domains count in some way: ``weights``, ``worst_domain``."""
        return Choice.of(self.rule, guard=self.guard, **domains, **self.params)

    def check_is_rule(self) -> None:
        """Refuse what does not pick a step of every run from that run's source validation."""
        if not self.is_rule:
            raise InputError(
                f"Expected a rule that chooses from source validation alone, but {self.name} does "
                "more: choose one that `checkwise rules` lists as a rule.",
                code="unsupported",
            )

    def check_chooses(self) -> None:
        """Refuse what does not choose one checkpoint."""
        if self.rule is not None and not self.expected:
            return
        reason = "is a mean over the feasible set" if self.expected else "makes a new model"
        raise InputError(
            f"Expected a rule that chooses a checkpoint, but {self.name} {reason}: use `evaluate` "
            "or `compare`.",
            code="unsupported",
        )


SUGGESTED: Final = 5  # names that somebody may have meant


_LOGS: Final[Needs] = frozenset({"logs"})
_LOGITS: Final[Needs] = frozenset({"logs", "logits"})
_INNER: Final[Needs] = frozenset({"logs", "training"})

ORACLE: Final = "ts-oracle"
GUARD: Final = "guard"
# What may stand behind a rule and a plus sign, and how `checkwise rules` puts it.
SUFFIXES: Final[Mapping[str, str]] = {
    **{name: known.summary for name, known in calibrators().items()},
    ORACLE: "the temperature that is best on the target: not deployable",
    GUARD: f"{SAFER} instead where the best checkpoint has {FEW_ERRORS} validation errors or "
    "fewer: exploratory",
}


def _guarded(method: Method) -> Method:
    summary = f"{method.name}; {SUFFIXES[GUARD]}"
    title = f"{method.title}+{GUARD}" if method.title else ""
    return replace(method, name=f"{method.name}+{GUARD}", summary=summary, guard=True, title=title)


def _calibrated(method: Method, suffix: str) -> Method:
    return replace(
        method,
        name=f"{method.name}+{suffix}",
        summary=f"{method.name}, then {SUFFIXES[suffix]}",
        needs=method.needs | _LOGITS,
        calibrator="ts" if suffix == ORACLE else suffix,
        oracle=suffix == ORACLE,
    )


def _of_rule(rule: Rule) -> Method:
    return Method(rule.name, rule.summary, _LOGS, rule)


def _made(name: str, recipe: Recipe) -> Method:
    return Method(name, recipe.summary, recipe.needs, recipe=recipe)


def _over(rule: Rule, validation: Validation, needs: Needs) -> Method:
    """A rule of its own over other validation results than the run's."""
    return Method(rule.name, rule.summary, needs, rule, validation=validation)


_SOURCE_ACC, _AC_NC = get_rule("source-acc"), get_rule("ac-nc")
# What models are made by, in the order in which methods are listed.
_RECIPES: Final = {**MEANS, **DEPLOYED, **ENSEMBLES}
_MADE: Final = (
    *("swad", "swad-as-described", "swad-nobn", "swad-as-described-nobn", "source-acc-bn"),
    *("ac-nc-mean-weights", "ac-nc-mean-probs", "mean-probs", "mean-probs-3", "mean-probs-5"),
    *("mean-weights", "deploy", "deploy-mean-probs", "deploy-mean-probs-5", "advised", "lawa-5"),
    *("sma", "dense-swad", "dense-swad-nobn", "eoa", "diwa-uniform", "diwa-greedy"),
)
_BUILT_IN: Final = (
    *(_made(name, _RECIPES[name]) for name in _MADE),
    *(
        _calibrated(_of_rule(rule), suffix)
        for rule in (_SOURCE_ACC, _AC_NC)
        for suffix in ("ts", "ts-soften", "ts-multi", "ts-weighted")
    ),
    _guarded(_of_rule(_AC_NC)),
    replace(_over(protocols.WALD_RECALIBRATED, "recalibrated", _LOGITS), calibrator="ts"),
    replace(_over(protocols.WALD_ISOTONIC, "recalibrated", _LOGITS), calibrator="isotonic"),
    replace(_over(protocols.REFINE, "refined", _LOGITS), calibrator="ts"),
    replace(_over(protocols.AC_REFINE, "refined", _LOGITS), calibrator="ts"),
    _over(protocols.PAIR_LAST10, "training terms", _LOGS),
    _over(protocols.PAIR_VALFILTER, "training terms", _LOGS),
    *(_made(name, recipe) for name, recipe in ACROSS_DOMAINS.items()),
    _over(protocols.LODO_ACC, "lodo", _INNER),
    _over(protocols.AC_LODO, "lodo", _INNER),
    Method(
        "hparams-acc",
        "source-acc over all hyperparameter seeds",
        _LOGS,
        _SOURCE_ACC,
        scope="hparams-acc",
    ),
    Method(
        "ac-nc-paired",
        f"ac-nc among those {TOLERANCES['paired']}",
        _LOGITS,
        _AC_NC,
        params={"tolerance": "paired"},
        title="ac-nc-paired",
    ),
    Method("hparams-ac", "ac-nc over all hyperparameter seeds", _LOGS, _AC_NC, scope="hparams-ac"),
    Method(
        "ac-mean",
        "mean over the feasible set: a uniform draw, in expectation",
        _LOGS,
        get_rule("ac-early"),
        expected=True,
    ),
)
_METHODS: Final = {built_in.name: built_in for built_in in _BUILT_IN}


def methods() -> Mapping[str, Method]:
    """Every registered rule and every other method by name; ``method`` knows more ``+…`` ones.

    Example:
        >>> methods()["ac-nc"].is_rule, sorted(methods()["swad"].needs)
        (True, ['data', 'logs', 'weights'])
    """
    return {**{rule.name: _of_rule(rule) for rule in rules().values()}, **_METHODS}


def method(name: str | Method, /, **params: Any) -> Method:
    """A rule or method by name, with parameters; an unknown name lists the known ones.

    Example:
        >>> method("ac-nc").label, method("ac-nc", delta_pp="1.0").label
        ('ac-nc', 'ac-nc(delta_pp=1.0)')
    """
    known = name if isinstance(name, Method) else _named(name)
    return replace(known, params={**known.params, **params})


def _named(name: str) -> Method:
    base, plus, suffix = name.rpartition("+")
    if plus:
        return _composite(name, base, suffix)
    rule, at, split = name.partition("@")
    if at:
        return _named(rule).validated_by(check_validation(split))
    if name in _METHODS:
        return _METHODS[name]
    if is_rule(name):  # registered, or offered by an installed distribution
        return _of_rule(get_rule(name))
    alike = difflib.get_close_matches(name, [*rules(), *_METHODS], n=SUGGESTED)
    meant = f"did you mean {listed(alike, 'or')}? " if alike else ""
    raise InputError(
        f"Expected a rule or a method, but got {name!r}: {meant}`checkwise rules` lists the rules, "
        "and docs/compare.md the methods.",
        code="unknown",
    )


def _composite(name: str, base: str, suffix: str) -> Method:
    alone = _named(base)
    if suffix not in SUFFIXES:
        raise InputError(
            f"Expected {base} followed by {', '.join('+' + known for known in SUFFIXES)}, but got "
            f"{name!r}: choose one of these.",
            code="unknown",
        )
    if alone.rule is None or alone.expected or alone.calibrator is not None:
        raise InputError(
            f"Expected a rule that chooses one checkpoint before +{suffix}, but {base} does not "
            "leave one to scale: name a rule.",
            code="unsupported",
        )
    if suffix != GUARD:
        return _calibrated(alone, suffix)
    if alone.guard or alone.validation != "source":
        raise InputError(
            f"Expected a rule over source validation before +{GUARD}, but got {base}: name one, "
            f"such as ac-nc+{GUARD}.",
            code="unsupported",
        )
    return _guarded(alone)


def recipe_of(name: str) -> Recipe:
    recipe = method(name).recipe
    if recipe is None:
        makers = [known for known, one in _METHODS.items() if one.recipe is not None]
        raise InputError(
            f"Expected one of {', '.join(makers)}, but {name!r} picks a saved step: use it in "
            "`checkwise study compare`.",
            code="unsupported",
        )
    return recipe


def with_shared(rows: Sequence[str | Method], shared: Mapping[str, Any]) -> tuple[Method, ...]:
    """Each method with those shared parameters that it takes; one that none takes is refused."""
    named = [method(row) for row in rows]
    idle = [
        name
        for name in shared
        if not any(row.can_take(name) and name not in row.params for row in named)
    ]
    if idle:
        raise InputError(
            f"Expected parameters of {', '.join(row.name for row in named)}, but none takes "
            f"{idle[0]!r}: remove it or add a rule that does.",
            code="unsupported",
        )
    labels = [row.label for row in named]
    twice = [label for label in dict.fromkeys(labels) if labels.count(label) > 1]
    if twice:
        raise InputError(f"Expected each rule once, but {twice[0]} is there several times.")
    return tuple(row.taking(shared) for row in named)
