"""The runs of a pool with source values in place of held-out results.

What a table or figure refuses for want of metrics, methods or logits it refuses here too. So a
rehearsal comes before the real thing, and a refused command opens nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from checkwise.records import RunKey
from checkwise.selection import Columns
from checkwise.study.cohort import Cohort
from checkwise.study.compared_method import Method
from checkwise.study.outcome import Outcome, RunColumns
from checkwise.study.pool import Pool


class Rehearsal(Pool):
    """A pool that reads no target; its numbers mean nothing and must not be shown."""

    @classmethod
    def of_pool(cls, pool: Pool) -> Rehearsal:
        """The rehearsal of a pool."""
        return cls(pool.cohorts, rule=pool.rule, reference=pool.reference, others=pool.others)

    def target(self, key: RunKey) -> RunColumns:
        """Source metrics at every step of a run."""
        run = self.trajectory(key)
        columns = Columns.of(run)
        return RunColumns({name: np.asarray(columns[name]) for name in run.metrics})

    def at_steps(self, outcome: Outcome) -> Outcome:
        """The outcome with its source values on every held-out domain."""
        return replace(outcome, targets=dict.fromkeys(outcome.key.held_out, outcome.source))

    def _of_cohort(self, cohort: Cohort, row: Method, scope: str) -> tuple[Outcome, ...]:
        chosen = cohort.outcomes(row, held_out=False, scope=scope)
        return tuple(self.at_steps(outcome) for outcome in chosen)
