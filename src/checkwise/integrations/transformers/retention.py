"""Which checkpoints of a Trainer stay, where it saves more often than it evaluates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from checkwise.selection import KeepFeasible, Policy, RunSoFar, parts


@dataclass(frozen=True)
class KeepChoosable(Policy):
    """What a policy keeps, without checkpoints that were not evaluated or that diverged.

    ``KeepFeasible`` keeps what was not measured, because it may still be. A Trainer evaluates
    before it saves, so a checkpoint without a record can never be chosen. Policies that count
    checkpoints, as ``KeepLast``, count these too.
    """

    policy: Policy

    def keep(self, steps: Iterable[int], live: RunSoFar) -> frozenset[int]:
        """The steps that stay beside the newest and the chosen one."""
        saved = tuple(steps)
        # Without a selection, every checkpoint with a record diverged.
        measured = () if live.selection is None else tuple(s for s in saved if s in live.steps)
        return frozenset().union(
            *(
                part.keep(measured if isinstance(part, KeepFeasible) else saved, live)
                for part in parts(self.policy)
            )
        )

    def why(self, step: int, live: RunSoFar) -> str:
        """Of a step that it keeps."""
        return "may still be chosen, or kept on request"
