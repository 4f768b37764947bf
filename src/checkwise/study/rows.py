"""What the name of a rule or method stands for: where it validates, how it chooses, what it adds.

A choice is a rule applied to validation results, which for most rows are those of the run itself,
and for others come from inner runs, training logs or recalibrated logits. ``+ts`` behind any of
them scales the chosen model's logits. What is made of several checkpoints is read from the
results kept beside the runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal, TypeAlias

from checkwise.errors import InputError
from checkwise.selection import Rule, get_rule, is_rule, rules
from checkwise.selection.constrained import accuracy_constrained
from checkwise.study import protocols
from checkwise.study.scopes import Scope
from checkwise.weights.methods import Method, Need, methods

Validation: TypeAlias = Literal["source", "lodo", "training terms", "recalibrated"]
Scaling: TypeAlias = Literal["pooled", "per-domain", "weighted", "oracle"]

# Expected metrics under a uniform draw from the feasible set: a row, not a checkpoint.
EXPECTED = {"ac-mean": "ac-early"}
SCALINGS: Final[Mapping[str, Scaling]] = {
    "ts": "pooled",
    "ts-multi": "per-domain",
    "ts-weighted": "weighted",
    "ts-oracle": "oracle",
}
_HARD = ("nll", "hard_cwece")
AC_LODO = Rule(
    "ac-lodo",
    "within delta_pp of the best accuracy on domains left out, smallest nll + hard_cwece",
    partial(accuracy_constrained, objectives=_HARD),
    needs=_HARD,
    fixed={"objectives": _HARD},
)


@dataclass(frozen=True)
class Row:
    """How the outcomes of one row of a comparison come about.

    Attributes:
        method: name, summary and needs.
        rule: what chooses; None where results are read that a method left beside the runs.
        validation: what the rule looks at.
        scaling: how the chosen model is recalibrated, if at all.
        scope: whether runs are taken one by one or hyperparameters are chosen among.
        expected: whether it is a mean over the feasible set instead of one checkpoint.
    """

    method: Method
    rule: Rule | None
    validation: Validation = "source"
    scaling: Scaling | None = None
    scope: Scope = "run"
    expected: bool = False

    @property
    def deployable(self) -> bool:
        """Whether nothing of the target went into it, and it is one model."""
        return self.scaling != "oracle" and not self.expected

    @property
    def needs(self) -> str:
        """What has to be there, in words."""
        listed = ", ".join(sorted(self.method.needs))
        return f"{listed}, target labels (not deployable)" if self.scaling == "oracle" else listed


def find_row(name: str) -> Row:
    """The row of a name; an unknown one lists what there is."""
    base, plus, suffix = name.partition("+")
    if plus:
        return _scaled(name, base, suffix)
    if name in EXPECTED:
        summary = "mean over the feasible set: a uniform draw, in expectation"
        method = Method(name, summary, frozenset[Need]({"logs"}))
        return Row(method, get_rule(EXPECTED[name]), expected=True)
    if name not in methods():
        is_rule(name)  # an installed distribution may offer it
    known = methods()
    if name not in known:
        others = ", ".join(n for n in known if n not in rules())
        raise InputError(
            f"Expected one of the rules {', '.join([*rules(), *EXPECTED])} or of the methods "
            f"{others}, but got {name!r}."
        )
    return _ROWS[name](known[name]) if name in _ROWS else _plain(known[name])


def _plain(method: Method) -> Row:
    return Row(method, get_rule(method.name) if method.is_rule else None)


def _scaled(name: str, base: str, suffix: str) -> Row:
    row = find_row(base)
    if suffix not in SCALINGS:
        raise InputError(
            f"Expected {base} followed by {', '.join('+' + known for known in SCALINGS)}, but got "
            f"{name!r}: choose one of these."
        )
    if row.rule is None or row.expected or row.scaling is not None:
        raise InputError(
            f"Expected a rule that chooses one checkpoint before +{suffix}, but {base} does not "
            "leave one to scale: give a rule."
        )
    summary = methods()[name].summary if name in methods() else f"{base}, then recalibrated"
    if suffix == "ts-oracle":
        summary = f"{base}, then the temperature that is best on the target: not deployable"
    method = replace(row.method, name=name, summary=summary, is_rule=False)
    needs = frozenset[Need]({*row.method.needs, "logits"})
    return replace(row, method=replace(method, needs=needs), scaling=SCALINGS[suffix])


_ROWS = {
    "wald-recalibrated": lambda m: Row(m, protocols.RULE, "recalibrated", "pooled"),
    "pair-last10": lambda m: Row(m, protocols.RULES[m.name], "training terms"),
    "pair-valfilter": lambda m: Row(m, protocols.RULES[m.name], "training terms"),
    "lodo-acc": lambda m: Row(m, get_rule("source-acc"), "lodo"),
    "ac-lodo": lambda m: Row(m, AC_LODO, "lodo"),
    "hparams-acc": lambda m: Row(m, get_rule("source-acc"), scope="hparams-acc"),
    "hparams-ac": lambda m: Row(m, get_rule("ac-nc"), scope="hparams-ac"),
}
