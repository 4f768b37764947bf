"""What most tables are made of: means under every rule, and changes paired by run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isnan

import numpy as np

from checkwise.records import RunKey
from checkwise.statistics import SEED, percentile_interval
from checkwise.study import (
    ENOUGH_GROUPS,
    Contrast,
    Differences,
    FloatArray,
    Group,
    Method,
    PlaceInterval,
    Pool,
    Row,
    RunColumns,
    by_units,
    contrasts,
    counted_by,
    label,
    marked,
    place_interval,
    scale,
)
from checkwise.study.inference import trimmed_mean
from checkwise.study.tables.table import Cell
from checkwise.study.tables.typeset import BY_DOMAIN, NEW_PLACE, OVER_RUNS
from checkwise.study.tables.worst_domain import WHD, worst_changes, worst_level

MAIN = ("target_accuracy", "target_ece", "target_cwece", "target_nll")
# Single runs can carry a mean NLL, so these stand beside it.
ROBUST = ("source_nll", "target_nll")


@dataclass(frozen=True)
class Pair:
    """A contrast: ``rule`` − ``reference``, and what its row is called."""

    row: tuple[str, ...]
    rule: Row
    reference: Row


def means(
    pool: Pool, rules: Sequence[Row], measures: Sequence[str], groups: Sequence[Group]
) -> Iterator[Cell]:
    """The mean of every measure under every rule, in every group.

    A run counts for a measure where every rule has a finite value, so that rules are compared on
    the same runs.
    """
    for group in groups:
        for rule in rules:
            for measure in pool.measured(measures):
                if measure == WHD:
                    yield from worst_level(pool, rule, group)
                else:
                    yield from _mean(pool, rules, rule, measure, group)


def _mean(
    pool: Pool, rules: Sequence[Row], rule: Row, measure: str, group: Group
) -> Iterator[Cell]:
    common = group.keep.copy()
    for other in rules:
        common &= np.isfinite(pool.columns(other)[measure])
    values = pool.columns(rule)[measure][common]
    row, n, factor = (*group.labels, label(rule)), len(values), scale(measure)
    yield Cell(row, measure, factor * mean_or_nan(values), n, group.role, factor)
    if measure in ROBUST:
        median = float(np.median(values)) if n else float("nan")
        yield Cell(row, f"{measure}_median", factor * median, n, group.role, factor)
        trimmed = factor * trimmed_mean(values)
        yield Cell(row, f"{measure}_trimmed", trimmed, n, group.role, factor)


def mean_or_nan(values: FloatArray) -> float:
    """The mean; nan of nothing."""
    return float(values.mean()) if len(values) else float("nan")


def changes(
    pool: Pool,
    pairs: Sequence[Pair],
    measures: Sequence[str],
    groups: Sequence[Group],
    *,
    seed: int = SEED,
) -> Iterator[Cell]:
    """Paired differences of every group, see ``paired_cells``; ``whd`` is in both of its units."""
    over_runs = [measure for measure in pool.measured(measures) if measure != WHD]
    for group in groups:
        for pair in pairs:
            row = (*group.labels, *pair.row)
            table = pool.differences(pair.rule, pair.reference, over_runs, group.keep)
            yield from paired_cells(table, row, group.role, seed=seed)
            if WHD in measures:
                yield from worst_changes(pool, pair.rule, pair.reference, group, row, seed=seed)


def paired_cells(
    table: Differences, row: tuple[str, ...], role: str, *, seed: int = SEED
) -> Iterator[Cell]:
    """The mean difference of every metric with the interval that leads, and what stands beside it.

    Beside it: the percentile interval over runs, what held-out domains say, and the median and
    trimmed mean of an NLL.
    """
    over_runs = contrasts(table, seed=seed)
    for of_runs, c in zip(over_runs, by_units(table, over_runs), strict=True):
        yield leading_cell(c, row, role)
        if not isnan(of_runs.low):
            yield _over_runs_cell(of_runs, row, role, seed)
        yield from beside_cells(c, row, role)


def leading_cell(c: Contrast, row: tuple[str, ...], role: str) -> Cell:
    """The difference with the interval of its leading unit; without one where groups are too few.

    Over places the mean is over places too.
    """
    unit = counted_by(c)
    cell = Cell(row, c.metric, c.mean, c.n, role, c.scale)
    if unit.name == "domain":
        return replace(cell, low=c.low, high=c.high, over=str(unit))
    if c.over == "runs" and unit.blocks == c.n >= ENOUGH_GROUPS:  # runs that share no seeds
        return replace(cell, low=c.low, high=c.high, seed=SEED)
    found = c.units[unit.name]
    return replace(cell, low=found.low, high=found.high, over=str(unit)) if found.decides else cell


def _over_runs_cell(c: Contrast, row: tuple[str, ...], role: str, seed: int) -> Cell:
    return Cell(row, c.metric + OVER_RUNS, c.mean, c.n, role, c.scale, c.low, c.high, seed)


def beside_cells(c: Contrast, row: tuple[str, ...], role: str) -> Iterator[Cell]:
    """By held-out domain where that does not lead, at a new place; of an NLL what is robust."""
    places = c.places
    if places is not None and places.decides and c.metric.startswith("target_"):
        if counted_by(c).name != "domain":
            yield domain_cell(c.metric, places, row, role)
        yield new_place_cell(c.metric, places, row, role)
    if c.metric in ROBUST:
        yield Cell(row, f"{c.metric}_median", c.median, c.n, role, c.scale)
        yield Cell(row, f"{c.metric}_trimmed", c.trimmed, c.n, role, c.scale)


def domain_cell(measure: str, places: PlaceInterval, row: tuple[str, ...], role: str) -> Cell:
    """The mean over held-out domains, each counting once, with its interval."""
    cell = _place_cell(measure, places, row, role)
    over = f"{places.places} {cell.unit}"
    return replace(cell, measure=measure + BY_DOMAIN, low=places.low, high=places.high, over=over)


def new_place_cell(measure: str, places: PlaceInterval, row: tuple[str, ...], role: str) -> Cell:
    """The same mean, with the interval in which one new place is expected."""
    cell = _place_cell(measure, places, row, role)
    over = f"a new place, from {places.places} {cell.unit}"
    return replace(
        cell, measure=measure + NEW_PLACE, low=places.new_low, high=places.new_high, over=over
    )


def _place_cell(measure: str, places: PlaceInterval, row: tuple[str, ...], role: str) -> Cell:
    unit = "places" if places.many else "domains"
    return Cell(row, measure, places.mean, places.places, role, scale(measure), unit=unit)


@dataclass(frozen=True)
class MeanInterval:
    """A mean over ``n`` runs and its interval; ``over`` names its unit unless that is the run."""

    mean: float
    low: float
    high: float
    n: int
    over: str


def mean_interval(values: FloatArray, keys: Sequence[RunKey]) -> MeanInterval:
    """The finite ``values`` [n]: t over held-out domains, percentiles over runs below three."""
    finite = np.isfinite(values)
    kept, n = values[finite], int(finite.sum())
    places = place_interval(kept, marked(keys, finite))
    if places.decides:
        over = f"{places.places} {'places' if places.many else 'domains'}"
        return MeanInterval(places.mean, places.low, places.high, n, over)
    low, high = percentile_interval(kept[:, None])
    return MeanInterval(mean_or_nan(kept), float(low[0]), float(high[0]), n, "")


def mean_cell(
    row: tuple[str, ...],
    measure: str,
    values: FloatArray,
    keys: Sequence[RunKey],
    role: str,
    factor: int = 1,
) -> Cell:
    """The mean of ``values`` [n] with its interval over held-out domains."""
    found = mean_interval(values, keys)
    ends = (found.low, found.high)
    if not found.over:
        return Cell(row, measure, found.mean, found.n, role, factor, *ends, SEED)
    return Cell(row, measure, found.mean, found.n, role, factor, *ends, over=found.over)


def choice_cells(
    pool: Pool, rule: RunColumns, reference: RunColumns, group: Group
) -> Iterator[Cell]:
    """How many checkpoints the rule could choose from, and the mean steps of both, means."""
    for measure, column in (
        ("eligible", rule["eligible"]),
        (_step(pool.reference), reference["step"]),
        (_step(pool.rule), rule["step"]),
    ):
        values = column[group.keep & np.isfinite(column)]
        yield Cell(group.labels, measure, mean_or_nan(values), len(values), group.role)


def _step(row: Method) -> str:
    return f"step_{row.label.replace('-', '_')}"
