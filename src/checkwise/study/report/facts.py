"""What the page says about a cohort, collected before anything is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from checkwise.errors import InputError, NoGuaranteeError
from checkwise.records import RunKey
from checkwise.selection import (
    CONDITIONS,
    NOT_PROMISED,
    REFERENCE,
    Guarantee,
    Selection,
    Weights,
    tolerance_in_words,
)
from checkwise.study import (
    Cohort,
    Contrast,
    Differences,
    Registered,
    contrasts,
    machines,
    registrations,
    scale,
    with_shared,
)
from checkwise.study.figures import median_run

RULES = ("ac-nc", "ac-nll", "ac-mean")


@dataclass(frozen=True)
class Spread:
    """A rule's differences over all runs, with every run's value for the plot."""

    contrast: Contrast
    values: tuple[float, ...]


@dataclass(frozen=True)
class SourceFacts:
    """What a rule did on the source side, where it looks."""

    rule: str
    runs: int
    differ: int
    mean_gap_pp: float
    median_eligible: float
    alone: int


@dataclass(frozen=True)
class BoundFacts:
    """The accuracy bound over the runs, in points; None where it cannot be stated."""

    smallest: float
    median: float
    largest: float
    alpha: float
    conditions: tuple[str, ...] = CONDITIONS
    not_promised: tuple[str, ...] = NOT_PROMISED


@dataclass(frozen=True)
class CohortFacts:
    """Everything on the page of a cohort. The first rule is the one the headline is about.

    ``chosen`` has the rules that choose a checkpoint from source validation; ``example`` is the
    leading rule's choice in the median run of those where it differs from the reference.
    """

    name: str
    role: str
    reference: str
    rules: tuple[str, ...]
    tolerance: str
    domains_count: str
    runs: int
    unfinished: int
    wrecked: int
    diverged: int
    datasets: tuple[str, ...]
    algorithms: tuple[str, ...]
    levels: dict[str, dict[str, float]]
    spreads: dict[str, tuple[Spread, ...]]
    by_algorithm: dict[str, tuple[Contrast, ...]]
    by_dataset: dict[str, tuple[Contrast, ...]]
    source: tuple[SourceFacts, ...]
    bound: BoundFacts | None
    chosen: Mapping[str, Mapping[RunKey, Selection]]
    example: Selection
    registered: Registered
    machines: Mapping[str, int]
    imported: bool

    @property
    def example_key(self) -> RunKey:
        assert self.example.run is not None
        return self.example.run

    def contrasts(self, rule: str) -> list[Contrast]:
        return [spread.contrast for spread in self.spreads[rule]]


def cohort_facts(
    cohort: Cohort,
    rules: Sequence[str] = RULES,
    reference: str = REFERENCE,
    *,
    weights: Weights = "equal",
    worst_domain: bool = False,
    **params: Any,
) -> CohortFacts:
    cohort.check_one_role()
    domains: dict[str, Any] = {"weights": weights, "worst_domain": worst_domain}
    compared = tuple(rule for rule in rules if rule != reference)
    if not compared:
        raise InputError(f"Expected a rule besides the reference {reference}, but got none.")
    chosen = choices(cohort, (reference, *compared), params, domains)
    if compared[0] not in chosen:
        raise InputError(
            f"Expected the first rule to choose a checkpoint from source validation, but "
            f"{compared[0]} does not: put one that does before it, such as ac-nc.",
            code="unsupported",
        )
    tables = cohort.differences(
        compared, reference, metrics=cohort.main_metrics, **domains, **params
    )
    leading = chosen[compared[0]]
    usual = chosen.get(reference, {})
    keys = sorted(leading)
    differ = [k for k in keys if k in usual and leading[k].step != usual[k].step] or keys
    example = differ[median_run([len(leading[key].feasible_steps) for key in differ])]
    return CohortFacts(
        name=cohort.name,
        role=cohort.role,
        reference=reference,
        rules=compared,
        tolerance=tolerance_in_words(leading[example]),
        domains_count=_domains_count(weights, worst_domain),
        runs=len(keys),
        unfinished=len(cohort.unfinished),
        wrecked=len(cohort.wrecked),
        diverged=cohort.n_diverged,
        datasets=tuple(sorted({key.dataset for key in keys})),
        algorithms=tuple(sorted({key.algorithm for key in keys})),
        levels=_levels(tables, reference),
        spreads={table.rule: spreads_of(table) for table in tables},
        by_algorithm=_split(tables[0], "algorithm"),
        by_dataset=_split(tables[0], "dataset"),
        source=tuple(source_facts(rule, chosen[rule], usual) for rule in chosen),
        bound=_bound([leading[key] for key in keys]),
        chosen=chosen,
        example=leading[example],
        registered=registrations(
            cohort.path,
            compared[:1],
            params,
            reference=reference,
            metrics=cohort.main_metrics,
            **domains,
        )[compared[0]],
        machines=machines(cohort.runs.folder(key) for key in keys),
        imported=cohort.imported,
    )


def _domains_count(weights: Weights, worst_domain: bool) -> str:
    if worst_domain:
        return "The worst source domain decides."
    if isinstance(weights, str):
        return "" if weights == "equal" else "Source domains count by their number of examples."
    listed = ", ".join(f"{name} {weight}" for name, weight in weights.items())
    return f"Weights of source domains: {listed}."


def choices(
    cohort: Cohort, rules: Sequence[str], params: dict[str, Any], domains: dict[str, Any]
) -> dict[str, dict[RunKey, Selection]]:
    """Selections of the rules that choose a checkpoint of the run itself, from its validation."""
    return {
        row.label: {
            outcome.key: outcome.selection
            for outcome in cohort.outcomes(row, held_out=False, **domains)
            if outcome.selection is not None
        }
        for row in with_shared(rules, params)
        if row.is_rule
    }


def _levels(tables: Sequence[Differences], reference: str) -> dict[str, dict[str, float]]:
    """Mean of every metric under every rule, on the reported scale, over the runs it has."""

    def means(table: Differences, values: Any) -> dict[str, float]:
        finite = np.isfinite(table.of_reference) & np.isfinite(table.of_rule)
        return {
            metric: scale(metric) * float(values[finite[:, m], m].mean())
            for m, metric in enumerate(table.metrics)
        }

    first = tables[0]
    return {reference: means(first, first.of_reference)} | {
        t.rule: means(t, t.of_rule) for t in tables
    }


def spreads_of(table: Differences) -> tuple[Spread, ...]:
    values = table.values
    return tuple(
        Spread(contrast, tuple(values[np.isfinite(values[:, m]), m].tolist()))
        for m, contrast in enumerate(contrasts(table))
    )


def _split(table: Differences, by: str) -> dict[str, tuple[Contrast, ...]]:
    rows = contrasts(table, [by])
    return {
        group: tuple(row for row in rows if row.group == (group,))
        for group in dict.fromkeys(row.group[0] for row in rows)
    }


def source_facts(
    rule: str, chosen: Mapping[RunKey, Selection], usual: Mapping[RunKey, Selection]
) -> SourceFacts:
    sizes = [len(selection.feasible_steps) for selection in chosen.values()]
    return SourceFacts(
        rule=rule,
        runs=len(chosen),
        differ=sum(s.step != usual[key].step for key, s in chosen.items() if key in usual),
        mean_gap_pp=float(np.mean([s.columns["gap_pp"][s.index] for s in chosen.values()])),
        median_eligible=float(np.median(sizes)),
        alone=sum(size == 1 for size in sizes),
    )


def _bound(selections: Sequence[Selection]) -> BoundFacts | None:
    try:
        bounds: list[Guarantee] = [selection.guarantee(paired=False) for selection in selections]
    except NoGuaranteeError:
        return None
    points = [bound.bound_pp for bound in bounds]
    return BoundFacts(min(points), float(np.median(points)), max(points), bounds[0].alpha)
