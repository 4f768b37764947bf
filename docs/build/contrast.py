"""One rule against another on the data of one role, with everything the protocol asks for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from checkwise.report.measures import number, shown
from checkwise.study.bootstrap import SEED
from checkwise.study.cluster_t import cluster_means
from checkwise.study.clusters import By, clusters
from checkwise.study.paired import contrasts, scale
from checkwise.study.pool import Pool
from checkwise.study.tables import Cell

TARGETS = ("target_accuracy", "target_ece", "target_cwece", "target_nll")
RULE, REFERENCE = "ac-nc", "source-acc"
EVALUATION, DEVELOPMENT = "evaluation", "development"
OTHERS: tuple[By, ...] = ("draw", "trial")  # units that share across blocks


@dataclass(frozen=True)
class Claim:
    """A sentence, and whether the numbers bear out each of its parts."""

    text: str
    holds: tuple[bool, ...]


@dataclass(frozen=True)
class Change:
    """A paired change in one metric: its 95% cluster-t interval, and how runs are spread."""

    metric: str
    mean: float
    low: float
    high: float
    p: float
    clusters: int
    n: int
    level: float
    median: float
    over_runs: tuple[float, float]
    counts: tuple[int, int, int]  # runs that are better, equal, worse
    elsewhere: bool  # whether the intervals by draw and by trial exclude zero too

    def __str__(self) -> str:
        """The mean and its cluster-t interval, with a mark where other units do not bear it out."""
        mark = "†" if not self.unclear and not self.elsewhere else ""
        return shown(self._cell(self.low, self.high), signed=True) + mark

    @property
    def unclear(self) -> bool:
        """Whether the cluster-t interval contains zero."""
        return self.low <= 0 <= self.high

    @property
    def with_runs(self) -> str:
        """The mean and its interval over runs."""
        return shown(self._cell(*self.over_runs), signed=True)

    def text(self, value: float, *, signed: bool = False) -> str:
        """A value with this metric's decimals."""
        return number(self._cell(value, value), value, signed=signed)

    def _cell(self, low: float, high: float) -> Cell:
        return Cell((), self.metric, self.mean, self.n, "", scale(self.metric), low, high, SEED)


def change(
    pool: Pool,
    role: str | None = None,
    *,
    rule: str = RULE,
    reference: str = REFERENCE,
    by: By = "block",
    keep: np.ndarray | None = None,
) -> dict[str, Change]:
    """The change in every target metric, on the runs of one role or the given ones."""
    kept = np.ones(len(pool), dtype=bool) if keep is None else keep
    if role is not None:
        kept = kept & np.array([each == role for each in pool.roles])
    found = pool.differences(rule, reference, TARGETS, kept)
    groups = clusters(found.keys, by)
    means = cluster_means(found.values, groups)
    low, high = means.interval()
    p = means.p_value()
    others = [cluster_means(found.values, clusters(found.keys, unit)) for unit in OTHERS]
    excluded = [(a > 0) | (b < 0) for a, b in (each.interval() for each in others)]
    return {
        each.metric: Change(
            metric=each.metric,
            mean=each.mean,
            low=float(low[k]),
            high=float(high[k]),
            p=float(p[k]),
            clusters=groups.count,
            n=each.n,
            level=scale(each.metric) * float(found.theirs[:, k].mean()),
            median=each.median,
            over_runs=(each.low, each.high),
            counts=(each.wins, each.ties, each.losses),
            elsewhere=all(bool(one[k]) for one in excluded),
        )
        for k, each in enumerate(contrasts(found))
    }
