"""Every table of a study, as functions of one or several cohorts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from checkwise.errors import InputError, MissingMetricError
from checkwise.store.logits import remedy
from checkwise.study.cohort import Cohort
from checkwise.study.pool import Pool
from checkwise.tables import (
    beyond,
    binning,
    components,
    composition,
    inference,
    learning_rate,
    length,
    logits,
    main,
    methods,
    objectives,
    ranks,
    robustness,
    tolerance,
)
from checkwise.tables.table import Cell, Table

__all__ = ["SLOW", "TABLES", "Cell", "Table", "build", "build_all", "check_name", "usual_names"]

TABLES: dict[str, Callable[[Pool], Table]] = {
    "main": main.main,
    "main-changes": main.main_changes,
    "by-algorithm": main.by_algorithm,
    "without-penalties": main.without_penalties,
    "losses": main.losses,
    "component-source": components.component_source,
    "component-dataset": components.component_dataset,
    "component-changes": components.component_changes,
    "controls": components.controls,
    "objectives": objectives.objectives,
    "distances": objectives.distances,
    "objective-changes": objectives.objective_changes,
    "tolerance": tolerance.tolerance,
    "tolerance-dataset": tolerance.tolerance_dataset,
    "tolerance-changes": tolerance.tolerance_changes,
    "composition": composition.composition,
    "disagreement": composition.disagreement,
    "pure": objectives.pure,
    "plateau": composition.plateau,
    "rank-correlation": ranks.rank_correlation,
    "kendall": ranks.kendall_tau,
    "ordering-transfer": ranks.ordering_transfer,
    "ranking-value": beyond.ranking_value,
    "sensitivity": beyond.sensitivity,
    "regret": beyond.regrets,
    "learning-rate": learning_rate.learning_rate,
    "length": length.length,
    "inference": inference.inference,
    "multiplicity": robustness.multiplicity,
    "influence": robustness.influences,
    "swad": methods.swad,
    "temperature": methods.temperature,
    "temperature-changes": methods.temperature_changes,
    "pair": methods.pair_s,
    "lodo": methods.lodo,
    "lodo-changes": methods.lodo_changes,
    "risk-coverage": logits.risk_coverages,
    "cross-fit": logits.cross_fit,
    "binning": binning.binning,
}
EQUIVALENCE = "equivalence"
# Built only when asked for by name: they read saved logits.
SLOW = ("risk-coverage", "cross-fit", "binning")


def check_name(name: str, margins: Mapping[str, float] | None = None) -> None:
    """Refuse a table that there is not, or one without the margin it needs."""
    if name == EQUIVALENCE and not margins:
        raise InputError(
            "Expected a margin for the equivalence table, such as target_accuracy=0.5: the "
            "largest difference that would not matter."
        )
    if name != EQUIVALENCE and name not in TABLES:
        raise InputError(f"Expected one of the tables {', '.join(TABLES)}, but got {name!r}.")


def usual_names(margins: Mapping[str, float] | None = None) -> list[str]:
    """Every table that is not slow; ``equivalence`` among them where there are margins."""
    return [*(name for name in TABLES if name not in SLOW), *([EQUIVALENCE] if margins else [])]


def build(
    name: str,
    cohorts: Cohort | Sequence[Cohort] | Pool,
    *,
    margins: Mapping[str, float] | None = None,
) -> Table:
    """One table by name; ``equivalence`` needs margins (metric → largest harmless difference).

    Raises:
        InputError: the name is unknown, or the cohort lacks what the table needs.
    """
    check_name(name, margins)
    pool = Pool.of(cohorts)
    if name == EQUIVALENCE:
        return inference.equivalences(pool, margins or {})
    found = TABLES[name](pool)
    if not found.cells:
        raise InputError(
            f"Expected what table {name} needs, but these runs have no saved logits: "
            f"{remedy(pool.folder(pool.keys[0]), heldout=True)}."
        )
    return found


def build_all(
    cohorts: Cohort | Sequence[Cohort] | Pool,
    *,
    margins: Mapping[str, float] | None = None,
) -> Iterator[Table | tuple[str, str]]:
    """Every table that is not slow; a name and a reason for one that cannot be made."""
    pool = Pool.of(cohorts)
    for name in usual_names(margins):
        try:
            yield build(name, pool, margins=margins)
        except (InputError, MissingMetricError) as error:
            yield name, str(error)
