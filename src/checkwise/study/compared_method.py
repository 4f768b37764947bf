"""One row of a comparison: what is chosen or made, from what, and with which parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from checkwise.errors import InputError
from checkwise.selection import TOLERANCE_OPTIONS, Choice, Rule, plain
from checkwise.store import Validation as Split
from checkwise.study.baselines import Needs, Recipe
from checkwise.study.lodo import Scope
from checkwise.study.protocols import Validation


@dataclass(frozen=True)
class Method:
    """One row of a comparison: how its outcomes come about, with the parameters that are set.

    Args:
        name: what users type.
        summary: one line.
        needs: what has to be there: the journals of source validation (``logs``), saved outputs
            (``logits``), saved checkpoints (``weights``), the examples (``data``), or runs that
            were trained for it (``training``).
        rule: what chooses a saved step; None where results are read that a recipe made.
        recipe: how its models are made; None where a rule chooses.
        validation: what the rule looks at.
        split: which of two validation sets that is, of runs that have both; None for their own.
        calibrator: what calibrates the chosen model, if anything.
        guard: whether the earliest feasible checkpoint replaces the choice where validation has
            too few errors; exploratory.
        oracle: whether it is fitted on the target itself: a limit, not a method.
        scope: whether every run counts by itself or hyperparameters are chosen too.
        expected: whether it is a mean over the feasible set instead of one checkpoint.
        params: the parameters that are set; the rest have their defaults.
        title: what tables call it; by default its name and parameters.
    """

    name: str
    summary: str
    needs: Needs
    rule: Rule | None = None
    recipe: Recipe | None = None
    validation: Validation = "source"
    split: Split | None = None
    calibrator: str | None = None
    guard: bool = False
    oracle: bool = False
    scope: Scope = "run"
    expected: bool = False
    params: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""

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
        """The same by one of two validation sets, unless it names one already.

        Raises:
            InputError: it makes models instead of choosing, or looks at other runs.
        """
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
