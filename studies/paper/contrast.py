"""One rule against another on the data of one role, with everything the protocol asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import nan

import numpy as np

from checkwise.statistics import SEED
from checkwise.study import (
    SEED_UNITS,
    Contrast,
    Pool,
    UnitInterval,
    contrasts,
    group_names,
    scale,
    verdict,
)
from checkwise.study.tables import Cell, shown_cell
from checkwise.words import listed

TARGETS = ("target_accuracy", "target_ece", "target_cwece", "target_nll")
RULE, REFERENCE = "ac-nc", "source-acc"
EVALUATION, DEVELOPMENT = "evaluation", "development"


@dataclass(frozen=True)
class Claim:
    """A sentence, and whether the numbers bear out each of its parts."""

    text: str
    holds: tuple[bool, ...]


@dataclass(frozen=True)
class Change:
    """A paired change in one metric, and the mean level of the reference."""

    row: Contrast
    level: float

    def __str__(self) -> str:
        """The mean and its interval by block, marked where other units do not bear it out."""
        return self.by("block") + self.mark

    def by(self, unit: str) -> str:
        """The mean and its interval by one unit."""
        found = self.row.units[unit]
        return shown_cell(self._cell(found.low, found.high), signed=True)

    def interval(self, unit: str) -> str:
        """The interval by one unit alone."""
        return self.by(unit).partition(" ")[2]

    @property
    def mean(self) -> float:
        return self.row.mean

    @property
    def n(self) -> int:
        return self.row.n

    @property
    def block(self) -> UnitInterval:
        """The unit that the protocol lets decide."""
        return self.row.units["block"]

    @property
    def unclear(self) -> bool:
        """Whether the interval by block contains zero."""
        return self.block.includes_zero

    @property
    def found(self) -> bool:
        """Whether every unit with enough groups bears it out."""
        return verdict(self.row).direction != "unclear"

    @property
    def mark(self) -> str:
        """† where draws or splits do not bear out what blocks do; ‡ where only domains do not."""
        if self.unclear:
            return ""
        found = verdict(self.row)
        if any(unit in found.against for unit in ("run", *SEED_UNITS)):
            return "†"
        return "‡" if found.reach != "new domains" else ""

    @property
    def against(self) -> tuple[str, ...]:
        """Units whose interval includes zero."""
        return verdict(self.row).against

    @property
    def not_borne_out_by(self) -> str:
        """What these units group by, as a list: draws, splits or domains."""
        return listed(group_names(self.against) or ["no unit"], "or")

    @property
    def with_runs(self) -> str:
        """The mean and its interval over runs."""
        ends = self.row.over_runs or (self.row.low, self.row.high)
        return shown_cell(self._cell(*ends), signed=True)

    def text(self, value: float, *, signed: bool = False) -> str:
        """A value with this metric's decimals."""
        return shown_cell(replace(self._cell(nan, nan), value=value), signed=signed)

    def _cell(self, low: float, high: float) -> Cell:
        metric = self.row.metric
        return Cell((), metric, self.row.mean, self.row.n, "", scale(metric), low, high, SEED)


def change(
    pool: Pool,
    role: str | None = None,
    *,
    rule: str = RULE,
    reference: str = REFERENCE,
    keep: np.ndarray | None = None,
) -> dict[str, Change]:
    """The change in every target metric, on the runs of one role or the given ones."""
    kept = np.ones(len(pool), dtype=bool) if keep is None else keep
    if role is not None:
        kept = kept & np.array([each == role for each in pool.roles])
    found = pool.differences(rule, reference, TARGETS, kept)
    levels = found.of_reference.mean(axis=0)
    return {
        row.metric: Change(row, scale(row.metric) * float(levels[k]))
        for k, row in enumerate(contrasts(found))
    }
