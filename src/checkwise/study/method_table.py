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
from dataclasses import replace
from typing import Any, Final

from checkwise.calibrators import calibrators
from checkwise.errors import InputError
from checkwise.selection import FEW_ERRORS, SAFER, TOLERANCES, Rule, get_rule, is_rule, rules
from checkwise.store import check_validation
from checkwise.study import protocols
from checkwise.study.baselines import (
    ADVISED,
    ALL_PROBS,
    AS_DESCRIBED,
    AS_DESCRIBED_NOBN,
    CHOICE,
    DENSE_SWAD,
    DENSE_SWAD_NOBN,
    DEPLOY_MEAN_PROBS,
    DIWA_GREEDY,
    DIWA_UNIFORM,
    EOA,
    LAWA_5,
    LYU_CORAL,
    LYU_MMD,
    MEAN_PROBS,
    MEAN_PROBS_3,
    MEAN_PROBS_5,
    MEAN_WEIGHTS,
    MEMBERS_MEAN_PROBS,
    MEMBERS_MEAN_WEIGHTS,
    MIXUP_ACC,
    MIXUP_LOSS,
    SMA,
    SOURCE_ACC_BN,
    SWAD,
    SWAD_NOBN,
    Needs,
    Recipe,
)
from checkwise.study.compared_method import Method
from checkwise.study.protocols import Validation
from checkwise.words import listed

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
    """A method whose choice is replaced where validation is saturated."""
    summary = f"{method.name}; {SUFFIXES[GUARD]}"
    title = f"{method.title}+{GUARD}" if method.title else ""
    return replace(method, name=f"{method.name}+{GUARD}", summary=summary, guard=True, title=title)


def _calibrated(method: Method, suffix: str) -> Method:
    """A method whose chosen model is calibrated."""
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
_BUILT_IN: Final = (
    _made("swad", SWAD),
    _made("swad-as-described", AS_DESCRIBED),
    _made("swad-nobn", SWAD_NOBN),
    _made("swad-as-described-nobn", AS_DESCRIBED_NOBN),
    _made("source-acc-bn", SOURCE_ACC_BN),
    _made("ac-nc-mean-weights", MEAN_WEIGHTS),
    _made("ac-nc-mean-probs", MEAN_PROBS),
    _made("mean-probs", MEMBERS_MEAN_PROBS),
    _made("mean-probs-3", MEAN_PROBS_3),
    _made("mean-probs-5", MEAN_PROBS_5),
    _made("mean-weights", MEMBERS_MEAN_WEIGHTS),
    _made("deploy", CHOICE),
    _made("deploy-mean-probs", ALL_PROBS),
    _made("deploy-mean-probs-5", DEPLOY_MEAN_PROBS),
    _made("advised", ADVISED),
    _made("lawa-5", LAWA_5),
    _made("sma", SMA),
    _made("dense-swad", DENSE_SWAD),
    _made("dense-swad-nobn", DENSE_SWAD_NOBN),
    _made("eoa", EOA),
    _made("diwa-uniform", DIWA_UNIFORM),
    _made("diwa-greedy", DIWA_GREEDY),
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
    _made("lyu-mmd", LYU_MMD),
    _made("lyu-coral", LYU_CORAL),
    _made("mixup-acc", MIXUP_ACC),
    _made("mixup-loss", MIXUP_LOSS),
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
    """How a method's models are made; a method that has no recipe is refused."""
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
    """Each method with those of the shared parameters that it takes, under its own label.

    A parameter that no method takes is refused: it would silently do nothing.
    """
    named = [method(row) for row in rows]
    idle = [name for name in shared if not any(_takes(row, name) for row in named)]
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


def _takes(row: Method, name: str) -> bool:
    return row.can_take(name) and name not in row.params
