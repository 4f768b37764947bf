"""WHD: the accuracy on the worst held-out domain, per data set, algorithm and block of seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkwise.records import RunKey
from checkwise.statistics import SEED, percentile_interval
from checkwise.study import Group, Outcome, Pool, Row, label, marked
from checkwise.study.tables.table import Cell

FloatArray = NDArray[np.float64]
CellBlock = tuple[str, str, int, int]

WHD = "whd"
FEWEST = 2  # the minimum over one domain is its accuracy


@dataclass(frozen=True, eq=False)
class WorstDomains:
    """Minimum target accuracy per (data set, algorithm, hparams seed, trial seed), fractions."""

    blocks: tuple[CellBlock, ...]
    values: FloatArray

    @property
    def cells(self) -> list[tuple[str, str]]:
        """Data set and algorithm of every block."""
        return [(dataset, algorithm) for dataset, algorithm, _, _ in self.blocks]


def block_of(key: RunKey) -> CellBlock:
    """What a run shares with those that differ in the held-out domain alone."""
    return key.dataset, key.algorithm, key.hparams_seed, key.trial_seed


def worst_domains(outcomes: Mapping[RunKey, Outcome]) -> WorstDomains:
    """The minimum over held-out domains in every complete block.

    A block that lacks a domain that others of its data set have (an unfinished run) is left out:
    its minimum would be over fewer domains. So there is no block at all where every run has seeds
    of its own, or where a data set has one held-out domain.
    """
    accuracies: dict[CellBlock, dict[str, float]] = {}
    domains: dict[str, set[str]] = {}
    for key, outcome in outcomes.items():
        for domain, values in outcome.targets.items():
            accuracies.setdefault(block_of(key), {})[domain] = values["accuracy"]
            domains.setdefault(key.dataset, set()).add(domain)
    complete = sorted(
        block
        for block, by_domain in accuracies.items()
        if set(by_domain) == domains[block[0]] and len(by_domain) >= FEWEST
    )
    return WorstDomains(
        tuple(complete),
        np.array([min(accuracies[block].values()) for block in complete]),
    )


def worst_level(pool: Pool, row: Row, group: Group) -> Iterator[Cell]:
    """The mean WHD of a rule over the blocks of a group; nothing where no block has one."""
    worst = _in_group(pool, row, group)
    values = worst.values[np.isfinite(worst.values)]
    if len(values):
        labels, value = (*group.labels, label(row)), 100 * float(values.mean())
        yield Cell(labels, WHD, value, len(values), group.role, 100, unit="blocks")


def worst_changes(
    pool: Pool,
    rule: Row,
    reference: Row,
    group: Group,
    labels: tuple[str, ...],
    *,
    seed: int = SEED,
) -> Iterator[Cell]:
    """Δ WHD, resampling blocks, and resampling data set × algorithm averages.

    Nothing where no block has a WHD under both.
    """
    change = _difference(*(_in_group(pool, row, group) for row in (rule, reference)))
    if not change.blocks:
        return
    units = ((WHD, change.values, "blocks"), (f"{WHD}_cells", _cell_means(change), "cells"))
    for measure, values, unit in units:
        points = 100 * np.asarray(values, dtype=np.float64).reshape(-1, 1)
        low, high = percentile_interval(points, seed=seed)
        mean, ends = float(points.mean()), (float(low[0]), float(high[0]))
        yield Cell(labels, measure, mean, len(points), group.role, 100, *ends, seed, unit)


def _in_group(pool: Pool, row: Row, group: Group) -> WorstDomains:
    outcomes = pool.outcomes(row)
    keys = set(marked(pool.keys, group.keep))
    return worst_domains({key: outcome for key, outcome in outcomes.items() if key in keys})


def _difference(rule: WorstDomains, reference: WorstDomains) -> WorstDomains:
    """Rule − reference on the blocks that both have, finite ones only."""
    of_reference = dict(zip(reference.blocks, reference.values.tolist(), strict=True))
    pairs = [
        (block, value - of_reference[block])
        for block, value in zip(rule.blocks, rule.values.tolist(), strict=True)
        if block in of_reference and np.isfinite(value - of_reference[block])
    ]
    return WorstDomains(tuple(block for block, _ in pairs), np.array([value for _, value in pairs]))


def _cell_means(worst: WorstDomains) -> FloatArray:
    """The mean over blocks of every (data set, algorithm), in order."""
    cells = worst.cells
    return np.array(
        [
            np.mean([v for v, of in zip(worst.values.tolist(), cells, strict=True) if of == cell])
            for cell in sorted(set(cells))
        ]
    )
