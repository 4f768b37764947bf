"""Every table of a study, as functions of one or several cohorts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from checkwise.errors import InputError, MissingMetricError
from checkwise.store import read_run
from checkwise.study import Cohort, Pool
from checkwise.study.tables import (
    diagnostics,
    headline,
    objectives,
    other_methods,
    rank_agreement,
    robustness,
    training,
)
from checkwise.study.tables.table import Cell, Table

__all__ = ["SLOW", "TABLES", "Cell", "Table", "build", "build_all", "check_name", "usual_names"]

PAPER = "paper"
TABLES: dict[str, Callable[[Pool], Table]] = {
    PAPER: headline.paper,
    "main": headline.main,
    "main-changes": headline.main_changes,
    "by-algorithm": headline.by_algorithm,
    "without-penalties": headline.without_penalties,
    "losses": headline.losses,
    "component-source": objectives.component_source,
    "component-dataset": objectives.component_dataset,
    "component-changes": objectives.component_changes,
    "controls": objectives.controls,
    "objectives": objectives.objectives,
    "distances": objectives.distances,
    "objective-changes": objectives.objective_changes,
    "tolerance": objectives.tolerance,
    "tolerance-dataset": objectives.tolerance_dataset,
    "tolerance-changes": objectives.tolerance_changes,
    "composition": objectives.composition,
    "disagreement": objectives.disagreement,
    "pure": objectives.pure,
    "plateau": objectives.plateau,
    "rank-correlation": rank_agreement.rank_correlation,
    "kendall": rank_agreement.kendall_tau,
    "ordering-transfer": rank_agreement.ordering_transfer,
    "ranking-value": objectives.ranking_value,
    "sensitivity": objectives.sensitivity,
    "regret": diagnostics.regrets,
    "learning-rate": training.learning_rate,
    "length": training.length,
    "inference": robustness.inference,
    "multiplicity": robustness.multiplicity,
    "influence": robustness.influences,
    "swad": other_methods.swad,
    "temperature": other_methods.temperature,
    "temperature-changes": other_methods.temperature_changes,
    "pair": other_methods.pair_s,
    "lodo": other_methods.lodo,
    "lodo-changes": other_methods.lodo_changes,
    "risk-coverage": diagnostics.risk_coverages,
    "cross-fit": diagnostics.cross_fit,
    "binning": diagnostics.binning,
}
"""What builds each table, by its name."""
EQUIVALENCE = "equivalence"
# About the rule and reference of the pool; the others are about fixed rules.
ABOUT_THE_RULE = (
    PAPER,
    "main",
    "main-changes",
    "by-algorithm",
    "without-penalties",
    "losses",
    "learning-rate",
    "length",
    "inference",
    "influence",
    "risk-coverage",
    EQUIVALENCE,
)
SLOW = ("risk-coverage", "cross-fit", "binning")
"""Tables that are built only when asked for by name: they read saved logits."""


def check_name(name: str, margins: Mapping[str, float] | None = None) -> None:
    """Refuse an unknown name, or a table without the margin it needs."""
    if name == EQUIVALENCE and not margins:
        raise InputError(
            "Expected a margin for the equivalence table, such as target_accuracy=0.5: the "
            "largest difference that would not matter.",
            code="missing",
        )
    if name != EQUIVALENCE and name not in TABLES:
        raise InputError(
            f"Expected one of the tables {', '.join(TABLES)}, but got {name!r}.", code="unknown"
        )


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
        return robustness.equivalences(pool, margins or {})
    built = TABLES[name](pool)
    if not built.cells:
        raise InputError(
            f"Expected what table {name} needs, but these runs have no saved logits: "
            f"{read_run(pool.folder(pool.keys[0])).remedy(heldout=True)}.",
            code="missing",
        )
    return built


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
