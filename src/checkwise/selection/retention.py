"""Which weights stay on disk: small policies that combine, and those of own runs.

A policy is pure. It names the steps that stay among those that were saved, by what is known of the
run; ``checkwise.store`` deletes the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from checkwise.metrics import whole
from checkwise.selection.averages import MEMBERS_DELTA_PP, near_best
from checkwise.selection.choice import Choice
from checkwise.selection.choosing import select
from checkwise.selection.constraint import Points, tolerance
from checkwise.selection.defaults import DEFAULT_RULE
from checkwise.selection.guard import WITHIN_PP
from checkwise.selection.live import Chosen
from checkwise.selection.result import Selection


class RunSoFar(Protocol):
    """What a policy may ask about a run: a ``LiveSelector``, or a run that is over."""

    @property
    def selection(self) -> Selection | None:
        """The choice among the checkpoints so far; None while there is none to choose."""

    @property
    def steps(self) -> tuple[int, ...]:
        """The steps that were measured."""

    @property
    def keep(self) -> tuple[int, ...]:
        """Those of them that may still be chosen."""


class Policy:
    """Says which checkpoints stay; ``a | b`` keeps what ``a`` or ``b`` keeps."""

    def why(self, step: int, live: RunSoFar) -> str:
        """Why a step stays that this policy keeps, in a few words."""
        raise NotImplementedError

    def keep(self, steps: Iterable[int], live: RunSoFar) -> frozenset[int]:
        """The steps among ``steps``, which were saved, that stay."""
        raise NotImplementedError

    def __or__(self, other: Policy) -> Policy:
        if not isinstance(other, Policy):
            return NotImplemented
        return AnyOf((*parts(self), *parts(other)))


@dataclass(frozen=True)
class KeepFeasible(Policy):
    """Keep what a rule may still choose, and every step that was not measured.

    Args:
        rule: the rule; by default that of the run.
        delta_pp: its tolerance in points, by default the rule's own.

    Example:
        >>> from checkwise.integrations import LiveSelector
        >>> live = LiveSelector("source-acc")
        >>> live.add(1, {"val": {"accuracy": 0.80}})
        >>> live.add(2, {"val": {"accuracy": 0.90}})
        >>> live.add(3, {"val": {"accuracy": 0.70}})
        >>> sorted(KeepFeasible().keep([1, 2, 3], live))
        [2]
        >>> sorted((KeepFeasible("ac-early", 10) | KeepLast(1)).keep([1, 2, 3], live))
        [1, 2, 3]
    """

    rule: str | None = None
    delta_pp: Points | None = None

    def __post_init__(self) -> None:
        self._like(Choice())  # refuses what is no rule or no tolerance

    def _like(self, choice: Choice) -> Choice:
        """The rule of this policy, with domains and guard as in a choice."""
        params = {} if self.delta_pp is None else {"delta_pp": self.delta_pp}
        rule = self.rule or DEFAULT_RULE
        return replace(choice, rule=rule, params=params, tolerance=None, alpha=None)

    def keep(self, steps: Iterable[int], live: RunSoFar) -> frozenset[int]:
        """Everything but the measured steps that cannot be chosen any more."""
        stay = self._choosable(live)
        measured = set(live.steps)
        return frozenset(step for step in steps if step in stay or step not in measured)

    def why(self, step: int, live: RunSoFar) -> str:
        """Whether it may be chosen, or nothing is known of it."""
        return "may still be chosen" if step in live.steps else "not measured"

    def _choosable(self, live: RunSoFar) -> set[int]:
        chosen = live.selection
        if chosen is None or (self.rule is None and self.delta_pp is None):
            return set(live.keep)
        return set(Chosen.of(select(chosen.trajectory, self._like(chosen.choice))).keep)


@dataclass(frozen=True)
class KeepMembers(Policy):
    """Keep the members of an average: every checkpoint within a tolerance of the best accuracy.

    The best only rises, so a checkpoint that fell out is never a member again.

    Args:
        delta_pp: the tolerance in points.

    Example:
        >>> from checkwise.integrations import LiveSelector
        >>> live = LiveSelector("source-acc")
        >>> for step, accuracy in ((1, 0.80), (2, 0.894), (3, 0.90)):
        ...     live.add(step, {"val": {"accuracy": accuracy}})
        >>> sorted(KeepMembers().keep([1, 2, 3], live)), live.members()
        ([2, 3], (2, 3))
    """

    delta_pp: Points = MEMBERS_DELTA_PP

    def __post_init__(self) -> None:
        tolerance(self.delta_pp)

    def keep(self, steps: Iterable[int], live: RunSoFar) -> frozenset[int]:
        """The members among the steps."""
        chosen = live.selection
        if chosen is None:
            return frozenset()
        near = set(near_best(chosen, self.delta_pp))
        if chosen.guard is not None:  # a later best may be the one that the guard acts on
            near |= set(near_best(chosen, WITHIN_PP))
        return frozenset(near).intersection(steps)

    def why(self, step: int, live: RunSoFar) -> str:
        """What it is kept for."""
        return "member of the average"


@dataclass(frozen=True)
class KeepLast(Policy):
    """Keep the n latest steps."""

    n: int

    def __post_init__(self) -> None:
        whole(self.n, "n", least=1)

    def keep(self, steps: Iterable[int], live: RunSoFar) -> frozenset[int]:
        """The n latest of the steps."""
        return frozenset(sorted(steps)[-self.n :])

    def why(self, step: int, live: RunSoFar) -> str:
        """How many of the last stay."""
        return "the last" if self.n == 1 else f"among the last {self.n}"


@dataclass(frozen=True)
class KeepEvery(Policy):
    """Keep the first checkpoint of every n steps: steps 0, n, 2n … where these were saved."""

    n: int

    def __post_init__(self) -> None:
        whole(self.n, "n", least=1)

    def keep(self, steps: Iterable[int], live: RunSoFar) -> frozenset[int]:
        """The earliest step of each stretch of n steps."""
        first: dict[int, int] = {}
        for step in sorted(steps):
            first.setdefault(step // self.n, step)
        return frozenset(first.values())

    def why(self, step: int, live: RunSoFar) -> str:
        """How often one stays."""
        return f"the first of every {self.n} steps"


@dataclass(frozen=True)
class AnyOf(Policy):
    """Keep what any of several policies keeps."""

    policies: tuple[Policy, ...]

    def keep(self, steps: Iterable[int], live: RunSoFar) -> frozenset[int]:
        """The union."""
        listed = tuple(steps)
        return frozenset().union(*(policy.keep(listed, live) for policy in self.policies))


def parts(policy: Policy) -> tuple[Policy, ...]:
    """The policies that a policy is made of."""
    return policy.policies if isinstance(policy, AnyOf) else (policy,)


def reasons_to_keep(saved: Sequence[int], run: RunSoFar, policy: Policy) -> dict[int, str]:
    """Why checkpoints stay, of the steps that were saved, in the order of saving."""
    reasons: dict[int, str] = dict.fromkeys(saved[-1:], "newest")
    for part in reversed(parts(policy)):
        reasons |= {step: part.why(step, run) for step in part.keep(saved, run)}
    if run.selection is not None and run.selection.step in saved:
        reasons[run.selection.step] = "chosen"
    return reasons
