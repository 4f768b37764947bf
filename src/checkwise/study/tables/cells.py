"""What most tables are made of: means under every rule, and changes paired by run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan

import numpy as np

from checkwise.records import RunKey
from checkwise.statistics import SEED, bootstrap_interval
from checkwise.study import (
    ENOUGH_GROUPS,
    Contrast,
    Differences,
    FloatArray,
    Group,
    Outcome,
    PlaceInterval,
    Pool,
    Row,
    RunColumns,
    contrasts,
    label,
    marked,
    place_interval,
    scale,
)
from checkwise.study.inference import trimmed_mean
from checkwise.study.tables.table import NAN, Cell, plain_cells
from checkwise.study.tables.typeset import BY_DOMAIN, NEW_PLACE, OVER_RUNS

MAIN = ("target_accuracy", "target_ece", "target_cwece", "target_nll")
# Single runs can carry a mean NLL, so its median and trimmed mean stand beside it.
ROBUST = ("source_nll", "target_nll")
WHD = "whd"  # accuracy on the worst held-out domain, per data set, algorithm and block of seeds
FEWEST = 2  # the minimum over one domain is its accuracy

Labels = tuple[str, ...]
Pairs = Mapping[Labels, tuple[Row, Row]]  # what a row is called → rule and reference
SeedBlock = tuple[str, str, int, int]  # data set, algorithm, hparams seed, trial seed


def means(
    pool: Pool, rules: Sequence[Row], measures: Sequence[str], groups: Sequence[Group]
) -> Iterator[Cell]:
    """Means under every rule over the runs that are finite under all of them."""
    for group in groups:
        for rule in rules:
            row = (*group.labels, label(rule))
            for measure in pool.measured(measures):
                if measure == WHD:
                    yield from _mean_of_worst(pool, rule, row, group)
                    continue
                common = group.keep.copy()
                for other in rules:
                    common &= np.isfinite(pool.columns(other)[measure])
                values, factor = pool.columns(rule)[measure][common], scale(measure)
                found = {measure: mean_or_nan(values)}
                if measure in ROBUST:
                    found[f"{measure}_median"] = float(np.median(values)) if len(values) else NAN
                    found[f"{measure}_trimmed"] = trimmed_mean(values)
                scaled = {name: factor * value for name, value in found.items()}
                yield from plain_cells(row, scaled, len(values), group.role, factor)


def mean_or_nan(values: FloatArray) -> float:
    return float(values.mean()) if len(values) else NAN


def changes(
    pool: Pool, pairs: Pairs, measures: Sequence[str], groups: Sequence[Group], *, seed: int = SEED
) -> Iterator[Cell]:
    """Paired differences of every group, see ``paired_cells``; ``whd`` is in both of its units."""
    over_runs = [measure for measure in pool.measured(measures) if measure != WHD]
    for group in groups:
        for name, (rule, reference) in pairs.items():
            row = (*group.labels, *name)
            table = pool.differences(rule, reference, over_runs, group.keep)
            yield from paired_cells(table, row, group.role, seed=seed)
            if WHD in measures:
                yield from _changes_of_worst(pool, (rule, reference), row, group, seed)


def paired_cells(table: Differences, row: Labels, role: str, *, seed: int = SEED) -> Iterator[Cell]:
    """The mean difference of every metric with the interval that leads, and what is beside it."""
    for c in contrasts(table, seed=seed):
        yield leading_cell(c, row, role)
        mean, low, high = c.of_runs
        if not isnan(low):
            yield Cell(row, c.metric + OVER_RUNS, mean, c.n, role, c.scale, low, high, seed)
        yield from beside_cells(c, row, role)


def leading_cell(c: Contrast, row: Labels, role: str) -> Cell:
    """The difference with the interval of its leading unit, unless groups are too few."""
    unit = c.leading
    cell = Cell(row, c.metric, c.mean, c.n, role, c.scale)
    if unit.name == "domain":
        return replace(cell, low=c.low, high=c.high, over=str(unit))
    if c.over == "runs" and unit.blocks == c.n >= ENOUGH_GROUPS:  # runs that share no seeds
        return replace(cell, low=c.low, high=c.high, seed=SEED)
    found = c.units[unit.name]
    return replace(cell, low=found.low, high=found.high, over=str(unit)) if found.decides else cell


def beside_cells(c: Contrast, row: Labels, role: str) -> Iterator[Cell]:
    """By held-out domain where that does not lead, at a new place; of an NLL what is robust."""
    places = c.places
    if places is not None and places.decides and c.metric.startswith("target_"):
        unit = _called(places)
        mean = Cell(row, c.metric, places.mean, places.places, role, c.scale, unit=unit)
        over = f"{places.places} {unit}"
        if c.leading.name != "domain":
            by_domain = c.metric + BY_DOMAIN
            yield replace(mean, measure=by_domain, low=places.low, high=places.high, over=over)
        at_new, over = c.metric + NEW_PLACE, f"a new place, from {over}"
        yield replace(mean, measure=at_new, low=places.new_low, high=places.new_high, over=over)
    if c.metric in ROBUST:
        robust = {f"{c.metric}_median": c.median, f"{c.metric}_trimmed": c.trimmed}
        yield from plain_cells(row, robust, c.n, role, c.scale)


def _called(places: PlaceInterval) -> str:
    return "places" if places.many else "domains"


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
        over = f"{places.places} {_called(places)}"
        return MeanInterval(places.mean, places.low, places.high, n, over)
    low, high = bootstrap_interval(kept[:, None])
    return MeanInterval(mean_or_nan(kept), float(low[0]), float(high[0]), n, "")


def mean_cell(
    row: Labels,
    measure: str,
    values: FloatArray,
    keys: Sequence[RunKey],
    role: str,
    factor: int = 1,
) -> Cell:
    found = mean_interval(values, keys)
    cell = Cell(row, measure, found.mean, found.n, role, factor, found.low, found.high)
    return replace(cell, over=found.over) if found.over else replace(cell, seed=SEED)


def choice_cells(
    pool: Pool, rule: RunColumns, reference: RunColumns, group: Group
) -> Iterator[Cell]:
    """How many checkpoints the rule could choose from, and the mean steps of both, means."""
    columns = {"eligible": rule["eligible"]}
    for row, side in ((pool.reference, reference), (pool.rule, rule)):
        columns[f"step_{row.label.replace('-', '_')}"] = side["step"]
    for measure, column in columns.items():
        values = column[group.keep & np.isfinite(column)]
        yield Cell(group.labels, measure, mean_or_nan(values), len(values), group.role)


def worst_domains(outcomes: Mapping[RunKey, Outcome]) -> dict[SeedBlock, float]:
    """The minimum target accuracy over held-out domains in every complete block, fractions.

    A block that lacks a domain that others of its data set have (an unfinished run) is left out:
    its minimum would be over fewer domains. So there is no block at all where every run has seeds
    of its own, or where a data set has one held-out domain.
    """
    accuracies: dict[SeedBlock, dict[str, float]] = {}
    domains: dict[str, set[str]] = {}
    for key, outcome in outcomes.items():
        block = (key.dataset, key.algorithm, key.hparams_seed, key.trial_seed)
        for domain, values in outcome.targets.items():
            accuracies.setdefault(block, {})[domain] = values["accuracy"]
            domains.setdefault(key.dataset, set()).add(domain)
    return {
        block: float(min(by_domain.values()))
        for block, by_domain in sorted(accuracies.items())
        if set(by_domain) == domains[block[0]] and len(by_domain) >= FEWEST
    }


def _worst_in(pool: Pool, row: Row, group: Group) -> dict[SeedBlock, float]:
    keys = set(marked(pool.keys, group.keep))
    return worst_domains({key: one for key, one in pool.outcomes(row).items() if key in keys})


def _mean_of_worst(pool: Pool, rule: Row, row: Labels, group: Group) -> Iterator[Cell]:
    """The mean WHD of a rule over the blocks of a group; nothing where no block has one."""
    values = np.array(list(_worst_in(pool, rule, group).values()))
    values = values[np.isfinite(values)]
    if len(values):
        mean = 100 * float(values.mean())
        yield Cell(row, WHD, mean, len(values), group.role, 100, unit="blocks")


def _changes_of_worst(
    pool: Pool, rows: tuple[Row, Row], labels: Labels, group: Group, seed: int
) -> Iterator[Cell]:
    """Δ WHD of blocks that both have, resampling blocks, and data set × algorithm averages."""
    of_rule, of_reference = (_worst_in(pool, row, group) for row in rows)
    change = {b: v - of_reference[b] for b, v in of_rule.items() if b in of_reference}
    change = {block: value for block, value in change.items() if np.isfinite(value)}
    if not change:
        return
    by_cell: dict[tuple[str, str], list[float]] = {}
    for (dataset, algorithm, *_), value in change.items():
        by_cell.setdefault((dataset, algorithm), []).append(value)
    cells = [np.mean(by_cell[cell]) for cell in sorted(by_cell)]
    units = ((WHD, list(change.values()), "blocks"), (f"{WHD}_cells", cells, "cells"))
    for measure, values, unit in units:
        points = 100 * np.array(values, dtype=np.float64)[:, None]
        low, high = bootstrap_interval(points, seed=seed)
        mean, ends = float(points.mean()), (float(low[0]), float(high[0]))
        yield Cell(labels, measure, mean, len(points), group.role, 100, *ends, seed, unit)
