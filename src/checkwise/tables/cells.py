"""WHD: the worst held-out domain of every block of runs that differ in nothing but that domain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkwise.records import RunKey
from checkwise.statistics.bootstrap import SEED, percentile_interval
from checkwise.study.outcome import Outcome
from checkwise.study.paired import Differences, contrasts, scale, trimmed_mean
from checkwise.study.pool import Group, Pool, Rule, label
from checkwise.tables.table import Cell

FloatArray = NDArray[np.float64]
Block = tuple[str, str, int, int]


@dataclass(frozen=True, eq=False)
class Blocks:
    """Minimum target accuracy per (data set, algorithm, hparams seed, trial seed), fractions."""

    blocks: tuple[Block, ...]
    values: FloatArray

    @property
    def cells(self) -> list[tuple[str, str]]:
        """Data set and algorithm of every block."""
        return [(dataset, algorithm) for dataset, algorithm, _, _ in self.blocks]


def block_of(key: RunKey) -> Block:
    """Which block a run belongs to."""
    return key.dataset, key.algorithm, key.hparams_seed, key.trial_seed


def worst_domains(outcomes: Mapping[RunKey, Outcome]) -> Blocks:
    """The minimum over held-out domains in every complete block.

    A block that lacks a domain that others of its data set have (an unfinished run) is left out:
    its minimum would be over fewer domains.
    """
    found: dict[Block, dict[str, float]] = {}
    domains: dict[str, set[str]] = {}
    for key, outcome in outcomes.items():
        for domain, values in outcome.targets.items():
            found.setdefault(block_of(key), {})[domain] = values["accuracy"]
            domains.setdefault(key.dataset, set()).add(domain)
    complete = sorted(block for block in found if set(found[block]) == domains[block[0]])
    return Blocks(
        tuple(complete),
        np.array([min(found[block].values(), default=np.nan) for block in complete]),
    )


def paired(mine: Blocks, theirs: Blocks) -> Blocks:
    """Differences on the blocks that both have, finite ones only."""
    other = dict(zip(theirs.blocks, theirs.values.tolist(), strict=True))
    pairs = [
        (block, value - other[block])
        for block, value in zip(mine.blocks, mine.values.tolist(), strict=True)
        if block in other and np.isfinite(value - other[block])
    ]
    return Blocks(tuple(block for block, _ in pairs), np.array([value for _, value in pairs]))


def cell_means(blocks: Blocks) -> FloatArray:
    """The mean over blocks of every (data set, algorithm), in order."""
    cells = blocks.cells
    return np.array(
        [
            np.mean([v for v, of in zip(blocks.values.tolist(), cells, strict=True) if of == cell])
            for cell in sorted(set(cells))
        ]
    )


MAIN = ("target_accuracy", "target_ece", "target_cwece", "target_nll")
# Single runs can carry a mean NLL, so these stand beside it.
ROBUST = ("source_nll", "target_nll")
WHD = "whd"


@dataclass(frozen=True)
class Pair:
    """A contrast: ``rule`` − ``reference``, and what its row is called."""

    row: tuple[str, ...]
    rule: Rule
    reference: Rule


def means(
    pool: Pool, rules: Sequence[Rule], measures: Sequence[str], groups: Sequence[Group]
) -> Iterator[Cell]:
    """The mean of every measure under every rule, in every group.

    A run counts for a measure where every rule has a finite value, so that rules are compared on
    the same runs.
    """
    for group in groups:
        for rule in rules:
            for measure in measures:
                if measure == WHD:
                    yield _worst(pool, rule, group)
                else:
                    yield from _mean(pool, rules, rule, measure, group)


def _mean(
    pool: Pool, rules: Sequence[Rule], rule: Rule, measure: str, group: Group
) -> Iterator[Cell]:
    found = group.keep.copy()
    for other in rules:
        found &= np.isfinite(pool.columns(other)[measure])
    values = pool.columns(rule)[measure][found]
    row, n, factor = (*group.labels, label(rule)), len(values), scale(measure)
    middle = float(values.mean()) if n else float("nan")
    yield Cell(row, measure, factor * middle, n, group.role, factor)
    if measure in ROBUST:
        median = float(np.median(values)) if n else float("nan")
        yield Cell(row, f"{measure}_median", factor * median, n, group.role, factor)
        trimmed = factor * trimmed_mean(values)
        yield Cell(row, f"{measure}_trimmed", trimmed, n, group.role, factor)


def _worst(pool: Pool, rule: Rule, group: Group) -> Cell:
    blocks = _in_group(pool, rule, group)
    values = blocks.values[np.isfinite(blocks.values)]
    value = 100 * float(values.mean()) if len(values) else float("nan")
    row = (*group.labels, label(rule))
    return Cell(row, WHD, value, len(values), group.role, 100, unit="blocks")


def _in_group(pool: Pool, rule: Rule, group: Group) -> Blocks:
    kept = {key for key, keep in zip(pool.keys, group.keep.tolist(), strict=True) if keep}
    return worst_domains({k: o for k, o in pool.outcomes(rule).items() if k in kept})


def changes(
    pool: Pool,
    pairs: Sequence[Pair],
    measures: Sequence[str],
    groups: Sequence[Group],
    *,
    seed: int = SEED,
) -> Iterator[Cell]:
    """Paired differences with 95% percentile intervals over runs; ``whd`` in both units."""
    over_runs = [measure for measure in measures if measure != WHD]
    for group in groups:
        for pair in pairs:
            row = (*group.labels, *pair.row)
            found = pool.differences(pair.rule, pair.reference, over_runs, group.keep)
            yield from paired_cells(found, row, group.role, seed=seed)
            if WHD in measures:
                yield from worst_changes(pool, pair, group, seed=seed)


def paired_cells(
    found: Differences, row: tuple[str, ...], role: str, *, seed: int = SEED
) -> Iterator[Cell]:
    """The mean difference of every metric with its interval, and what stands beside a mean NLL."""
    for c in contrasts(found, seed=seed):
        yield Cell(row, c.metric, c.mean, c.n, role, c.scale, c.low, c.high, seed)
        if c.metric in ROBUST:
            yield Cell(row, f"{c.metric}_median", c.median, c.n, role, c.scale)
            yield Cell(row, f"{c.metric}_trimmed", c.trimmed, c.n, role, c.scale)


def choice_cells(
    mine: Mapping[str, FloatArray], theirs: Mapping[str, FloatArray], group: Group
) -> Iterator[Cell]:
    """The mean size of the feasible set of ac-nc, and the mean steps of source-acc and ac-nc."""
    for measure, column in (
        ("eligible", mine["eligible"]),
        ("step_source_acc", theirs["step"]),
        ("step_ac_nc", mine["step"]),
    ):
        values = column[group.keep & np.isfinite(column)]
        mean = float(values.mean()) if len(values) else float("nan")
        yield Cell(group.labels, measure, mean, len(values), group.role)


def worst_changes(pool: Pool, pair: Pair, group: Group, *, seed: int = SEED) -> Iterator[Cell]:
    """Δ WHD, resampling blocks, and resampling data set × algorithm averages."""
    found = paired(*(_in_group(pool, rule, group) for rule in (pair.rule, pair.reference)))
    row = (*group.labels, *pair.row)
    units = ((WHD, found.values, "blocks"), (f"{WHD}_cells", cell_means(found), "cells"))
    for measure, values, unit in units:
        changed = 100 * np.asarray(values, dtype=np.float64).reshape(-1, 1)
        low, high = percentile_interval(changed, seed=seed)
        mean = float(changed.mean()) if len(changed) else float("nan")
        ends = (float(low[0]), float(high[0]))
        yield Cell(row, measure, mean, len(changed), group.role, 100, *ends, seed, unit)
