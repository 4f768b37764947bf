"""A rule or method with the parameters it is run with: one row of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkwise.errors import InputError
from checkwise.selection import Rule
from checkwise.selection.result import plain
from checkwise.study.rows import Row, find_row


@dataclass(frozen=True)
class Setting:
    """A rule or method and what is set of its parameters; the rest are its defaults.

    Example:
        >>> Setting("ac-nc").label, Setting("ac-nc", {"delta_pp": "1.0"}).label
        ('ac-nc', 'ac-nc(delta_pp=1.0)')
    """

    rule: str
    params: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None

    @property
    def label(self) -> str:
        """What tables call it."""
        if self.name is not None:
            return self.name
        set_ = ", ".join(f"{name}={plain(value)}" for name, value in self.params.items())
        return f"{self.rule}({set_})" if set_ else self.rule

    @property
    def row(self) -> Row:
        """What the name stands for."""
        return find_row(self.rule)

    @property
    def expected(self) -> bool:
        """Whether this is a mean over the feasible set instead of one checkpoint."""
        return self.row.expected

    @property
    def found(self) -> Rule:
        """The rule that decides which checkpoints are looked at."""
        rule = self.row.rule
        if rule is None:
            raise self._no_choice("makes a new model")
        return rule

    def check_chooses(self) -> None:
        """Refuse what does not choose one checkpoint."""
        if self.row.rule is None:
            raise self._no_choice("makes a new model")
        if self.expected:
            raise self._no_choice("is a mean over the feasible set")

    def _no_choice(self, because: str) -> InputError:
        return InputError(
            f"Expected a rule that chooses a checkpoint, but {self.rule} {because}: use `evaluate` "
            "or `compare`."
        )

    @property
    def takes(self) -> Mapping[str, Any]:
        """Parameters that may be set, with their defaults; a derived result has none left."""
        rule = self.row.rule
        return {} if rule is None else rule.defaults


def settings(rules: Sequence[str | Setting], shared: Mapping[str, Any]) -> tuple[Setting, ...]:
    """Each rule with those of the shared parameters that it takes.

    A parameter that no rule takes is refused: it would silently do nothing.
    """
    made = []
    used: set[str] = set()
    for given in rules:
        setting = given if isinstance(given, Setting) else Setting(given)
        takes = {
            name: value
            for name, value in shared.items()
            if name in setting.takes and name not in setting.params
        }
        used.update(takes)
        # A name keeps the label short where the parameters are shared by every row.
        made.append(Setting(setting.rule, {**setting.params, **takes}, setting.label))
    idle = [name for name in shared if name not in used]
    if idle:
        raise InputError(
            f"Expected parameters of {', '.join(s.rule for s in made)}, but none takes "
            f"{idle[0]!r}: remove it or add a rule that does."
        )
    labels = [setting.label for setting in made]
    twice = [label for label in dict.fromkeys(labels) if labels.count(label) > 1]
    if twice:
        raise InputError(f"Expected each rule once, but {twice[0]} is given several times.")
    return tuple(made)
