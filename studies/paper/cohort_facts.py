"""What the overview figures show on single cohorts, in numbers.

The three data sets of the 540 runs are here one by one, then the further cohorts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass, replace
from typing import Any

from checkwise.study import Pool, usual_unit
from checkwise.study.figures import (
    AlgorithmChange,
    DistancePoint,
    KendallFacts,
    algorithm_changes,
    distance_points,
    rank_agreements,
)
from studies.paper.cohorts import COHORTS as KNOWN
from studies.paper.cohorts import FIVE, Described
from studies.paper.packed import packed_cohorts
from studies.paper.recast import as_development
from studies.paper.tables import COHORTS, SEEN, described, pools

DECIMALS = 5


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
    points: tuple[DistancePoint, ...]
    changes: tuple[AlgorithmChange, ...]
    taus: KendallFacts | None


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
    trained = tuple(sorted({key.algorithm for key in pool.keys}))
    return Shown(
        name=row.name,
        data=row.data,
        network=row.network,
        role=pool.everything().role,
        runs=len(pool),
        algorithms=trained,
        of_design=of_design,
        points=distance_points(pool),
        changes=_changes(pool) if len(trained) > 1 else (),
        taus=None if of_design else rank_agreements(pool),
    )


def _changes(pool: Pool) -> tuple[AlgorithmChange, ...]:
    """What the figures of a report show, with the number of groups that an interval counts."""
    found = algorithm_changes(pool)
    units = {
        name: str(usual_unit([key for key in pool.keys if key.algorithm == name]))
        for name in dict.fromkeys(change.algorithm for change in found)
    }
    return tuple(replace(change, over=units[change.algorithm]) for change in found)


def plain(value: Any) -> Any:
    """Facts as JSON has them, rounded."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return round(float(value), DECIMALS) if isinstance(value, float) else value
