"""What the overview figures show on single cohorts, in numbers: study/figures-cohorts.md.

The three data sets of the 540 runs are here one by one, then the further cohorts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

from cohort_tables import described, pools
from cohorts import COHORTS as KNOWN
from cohorts import FIVE, Described
from packed import packed_cohorts
from paper_tables import COHORTS, SEEN
from recast import as_development

from checkwise.figures import distance, kendall
from checkwise.figures.algorithms import METRICS, PAPER
from checkwise.study.compare import by_units, contrasts
from checkwise.study.pool import Pool
from checkwise.tables.means_and_changes import leading_cell

DECIMALS = 5


@dataclass(frozen=True)
class Change:
    """One rule − source-acc on one algorithm's runs, with the interval that the tables show."""

    algorithm: str
    rule: str
    metric: str
    mean: float
    low: float
    high: float
    n: int
    over: str


@dataclass(frozen=True)
class Shown:
    """One cohort in the figures.

    Args:
        name: of its archive.
        data: what pages call it.
        of_design: whether it is a part of the 540 runs.
        changes: none where there is one algorithm.
        taus: None where another figure shows them.
    """

    name: str
    data: str
    network: str
    role: str
    runs: int
    algorithms: tuple[str, ...]
    of_design: bool
    points: tuple[distance.Point, ...]
    changes: tuple[Change, ...]
    taus: kendall.KendallFacts | None


def shown() -> list[Shown]:
    """Every cohort that is drawn by itself."""
    return [*_parts_of_the_design(), *(each for name in described() for each in _further(name))]


def _parts_of_the_design() -> list[Shown]:
    rows = {row.name: row for row in (*FIVE.values(), *KNOWN)}
    with packed_cohorts(COHORTS) as cohorts:
        return [
            _shown(rows[name], Pool([as_development(cohort) if name in SEEN else cohort]), True)
            for name, cohort in cohorts.items()
        ]


def _further(name: str) -> list[Shown]:
    with pools(name) as by_data:
        return [_shown(row, by_data[row.data], False) for row in described()[name]]


def _shown(row: Described, pool: Pool, of_design: bool) -> Shown:
    algorithms = tuple(sorted({key.algorithm for key in pool.keys}))
    return Shown(
        name=row.name,
        data=row.data,
        network=row.network,
        role=pool.everything().role,
        runs=len(pool),
        algorithms=algorithms,
        of_design=of_design,
        points=distance.facts(pool),
        changes=_changes(pool) if len(algorithms) > 1 else (),
        taus=None if of_design else kendall.facts(pool),
    )


def _changes(pool: Pool) -> tuple[Change, ...]:
    """The paper's two rules; `checkwise figures` has intervals over runs where domains are few."""
    found = []
    for group in pool.groups(["algorithm"]):
        for rule in PAPER:
            table = pool.differences(rule, pool.reference, METRICS, group.keep)
            for contrast in by_units(table, contrasts(table)):
                cell = leading_cell(contrast, group.labels, group.role)
                ends = (cell.value, cell.low, cell.high)
                found.append(
                    Change(group.labels[0], rule.label, cell.measure, *ends, cell.n, cell.over)
                )
    return tuple(found)


def plain(value: Any) -> Any:
    """Facts as JSON has them, rounded."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return round(float(value), DECIMALS) if isinstance(value, float) else value
